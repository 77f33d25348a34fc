// What users see of an assembly, as a text. Who changes the public API of a package changes the list of it in the same commit, and sees
// what they will see. To write a list anew: SLOGGER_WRITE_API=FILE.
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Text;

namespace Slogger.Tests.Packages;

internal static class PublicApi
{
    /// <summary>Compares the API of an assembly with the list that the calling assembly carries.</summary>
    public static void Check(Assembly assembly, Assembly list)
    {
        string found = Dump(assembly);
        if (Environment.GetEnvironmentVariable("SLOGGER_WRITE_API") is { Length: > 0 } file) { File.WriteAllText(file, found); }
        using var reader = new StreamReader(list.GetManifestResourceStream(list.GetName().Name + ".PublicApi.txt")!);
        Assert.Equal(reader.ReadToEnd().ReplaceLineEndings("\n"), found);
    }

    private static string Dump(Assembly assembly)
    {
        var text = new StringBuilder();
        foreach (Type type in assembly.GetExportedTypes().OrderBy(t => t.FullName, StringComparer.Ordinal))
        {
            text.Append(Kind(type)).Append(' ').Append(Name(type));
            IEnumerable<Type> bases = (type.BaseType is { } b && b != typeof(object) && b != typeof(ValueType) && b != typeof(Enum) ? [b]
                : Type.EmptyTypes)
                .Concat(type.IsEnum ? [] : type.GetInterfaces().Where(i => i.IsPublic)).DistinctBy(Name);
            if (bases.Any()) { text.Append(" : ").AppendJoin(", ", bases.Select(Name).Order(StringComparer.Ordinal)); }
            text.Append('\n');
            const BindingFlags Declared =
                BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly;
            foreach (string member in type.GetMembers(Declared).Select(Member).OfType<string>().Order(StringComparer.Ordinal))
            {
                text.Append("    ").Append(member).Append('\n');
            }
        }

        return text.ToString();
    }

    private static string Kind(Type type) => type.IsEnum ? "enum"
        : type.IsValueType ? "struct" : type.IsInterface ? "interface" : type.IsAbstract
        && type.IsSealed ? "static class" : type.IsSealed ? "sealed class" : "class";

    // Only what can be seen from outside, and was not made by the compiler.
    private static string? Member(MemberInfo member) => member switch
    {
        { } m when m.Name.Contains('<', StringComparison.Ordinal) => null,
        FieldInfo { IsPublic: true, IsSpecialName: false } f => f.IsLiteral ? $"{f.Name} = {f.GetRawConstantValue()}"
            : $"{Static(f.IsStatic)}{Name(f.FieldType)} {f.Name}",
        PropertyInfo p when IsVisible(p.GetMethod) =>
            $"{Static(p.GetMethod!.IsStatic)}{Required(p)}{Name(p.PropertyType)} {p.Name} {{ "
                + $"get;{(IsVisible(p.SetMethod) ? IsInit(p) ? " init;" : " set;" : "")} }}",
        ConstructorInfo c when IsVisible(c) => $"new({Parameters(c)})",
        MethodInfo m when IsVisible(m) && (!m.IsSpecialName || m.Name.StartsWith("op_", StringComparison.Ordinal))
            && m.GetBaseDefinition().DeclaringType != typeof(object)
            && m.GetCustomAttribute<CompilerGeneratedAttribute>() is null =>
            $"{Static(m.IsStatic)}{Name(m.ReturnType)} {m.Name}({Parameters(m)})",
        _ => null,
    };

    private static bool IsVisible(MethodBase? m) => m is { IsPublic: true } or { IsFamily: true } or { IsFamilyOrAssembly: true };

    private static bool IsInit(PropertyInfo p) => p.SetMethod!.ReturnParameter.GetRequiredCustomModifiers()
        .Contains(typeof(IsExternalInit));

    private static string Required(PropertyInfo p) => p.GetCustomAttribute<RequiredMemberAttribute>() is null ? "" : "required ";

    private static string Static(bool isStatic) => isStatic ? "static " : "";

    private static string Parameters(MethodBase method) => string.Join(", ", method.GetParameters().Select(p =>
    {
        bool isParams = p.GetCustomAttribute<ParamCollectionAttribute>() is not null
            || p.GetCustomAttribute<ParamArrayAttribute>() is not null;
        string value = p.HasDefaultValue ? $" = {p.RawDefaultValue ?? "default"}" : "";
        return $"{(isParams ? "params " : "")}{Name(p.ParameterType)} {p.Name}{value}";
    }));

    private static string Name(Type type)
    {
        if (type.IsByRef) { return "ref " + Name(type.GetElementType()!); }
        if (type.IsArray) { return Name(type.GetElementType()!) + "[]"; }
        if (Nullable.GetUnderlyingType(type) is { } inner) { return Name(inner) + "?"; }
        string name = type.IsGenericParameter ? type.Name
            : (type.Namespace is "Slogger.Client" or "Slogger.Hosting" or "System" ? "" : type.Namespace + ".") + type.Name;
        return type.IsGenericType ? name[..name.IndexOf('`', StringComparison.Ordinal)] + "<"
            + string.Join(", ", type.GetGenericArguments().Select(Name)) + ">" : name;
    }
}
