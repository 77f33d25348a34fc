// The rules that a story can be told without, by the names of the enums whose values switch them off.
using System.Reflection;

namespace Slogger.Simulation.Scenarios;

internal static class StoryFaults
{
    /// <summary>Settings with a fault.</summary>
    /// <param name="settings">The settings without it.</param>
    /// <param name="name">A value of the enums in <see cref="SimSettings"/>, behind the property's name and a dot where several have
    /// it.</param>
    /// <returns>Null if there is no such fault, or more than one.</returns>
    public static SimSettings? With(SimSettings settings, string name)
    {
        string[] parts = name.Split('.');
        PropertyInfo[] having = [.. typeof(SimSettings).GetProperties()
            .Where(p => p.PropertyType.IsEnum && p.PropertyType.Name.EndsWith("Mutation", StringComparison.Ordinal))
            .Where(p => (parts.Length == 1 || p.Name == parts[0]) && Enum.IsDefined(p.PropertyType, parts[^1]))];
        if (having is not [{ } property]) return null;
        SimSettings with = settings with { };
        property.SetValue(with, Enum.Parse(property.PropertyType, parts[^1]));
        return with;
    }
}
