using System.Reflection;

namespace Slogger.Cli.Terminal;

/// <summary>The version of this build.</summary>
internal static class ProductVersion
{
    /// <summary>Such as 0.1.0, without the source revision.</summary>
    public static readonly string Text =
        (typeof(ProductVersion).Assembly.GetCustomAttribute<AssemblyInformationalVersionAttribute>()?.InformationalVersion ?? "0").Split(
            '+')[0];
}
