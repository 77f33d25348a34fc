// From types to all their methods, and to the generic code that those use, and that this uses, each once. What the runtime compiles once
// for all reference types counts as one.
using System.Buffers.Binary;
using System.Collections;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using ByCode = System.Collections.Frozen.FrozenDictionary<short, System.Reflection.Emit.OperandType>;

namespace Slogger.Replication.Following;

/// <summary>Finds methods that may be called. Not thread-safe.</summary>
internal sealed class CodeWalk
{
    // Of types in types in types there is no end.
    private const int LengthMax = 300;
    private const BindingFlags All =
        BindingFlags.DeclaredOnly | BindingFlags.Instance | BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic;
    private static readonly ByCode s_operands = System.Collections.Frozen.FrozenDictionary.ToFrozenDictionary(
        typeof(OpCodes).GetFields(BindingFlags.Public | BindingFlags.Static).Select(f => (OpCode)f.GetValue(null)!),
        code => code.Value, code => code.OperandType);
    private static readonly string[] s_leftOut = ["System.Numerics", "System.Runtime.Intrinsics", "System.Text.Json"];
    private readonly HashSet<(Module, int, string)> _known = [];
    private readonly Dictionary<(Module, int, string), Uses> _uses = [];
    private readonly Queue<MethodBase> _next = new();

    // Of a base, or an interface.
    private sealed record Uses(HashSet<string> Called, List<Type> Made);

    /// <summary>All methods of these types, which are not generic, are to come.</summary>
    public CodeWalk(IEnumerable<Type> types)
    {
        foreach (MethodBase method in types.SelectMany(t => t.GetMembers(All)).OfType<MethodBase>()) { Add(method); }
    }

    /// <summary>The next method, which can be compiled as it is; null: there is none any more.</summary>
    public MethodBase? Next()
    {
        if (!_next.TryDequeue(out MethodBase? method)) { return null; }
        try
        {
            foreach (MethodBase called in CalledBy(method)) { Follow(called); }
        }
        catch (Exception)
        {
            // It uses an assembly that is not there, and may never be called. If it is, that is when to fail.
        }
        return method;
    }

    private void Follow(MethodBase called)
    {
        if (called.DeclaringType is not { } type || IsLeftOut(called, type)) { return; }
        // Others are of the program, or were compiled with the framework.
        if (!type.IsGenericType && !called.IsGenericMethod) { return; }
        Add(called);
        if (called.IsVirtual && !called.IsGenericMethod) { AddCalled(type, called.Name); }
        if (called.IsConstructor && !type.IsValueType) { AddMade(type); }
    }

    // What the compiler itself knows, and puts in place of calls; what only who looks for faults has called; and what has much code that
    // a failover does not need.
    private static bool IsLeftOut(MethodBase called, Type type) => type == typeof(Unsafe)
        || called.Name.StartsWith("CreateDebug", StringComparison.Ordinal)
        || s_leftOut.Any(n => type.Namespace?.StartsWith(n, StringComparison.Ordinal) == true);

    // An override is needed if such an object is made, and what it overrides is called. Where that is generic itself nobody looks: too much
    // would be compiled that nobody calls.
    private void AddCalled(Type type, string name)
    {
        Uses uses = UsesOf(type);
        if (uses.Called.Add(name)) { uses.Made.ForEach(made => AddOverrides(made, name)); }
    }

    private void AddMade(Type made)
    {
        if (!IsNew(made, Compiled(made))) { return; }
        IEnumerable<Type> bases = made.GetInterfaces();
        for (Type? type = made; type is not null; type = type.BaseType) { bases = bases.Append(type); }
        foreach (Type type in bases.Where(b => b != typeof(object) && b != typeof(IList) && b != typeof(ICollection)))
        {
            Uses uses = UsesOf(type);
            uses.Made.Add(made);
            // What is not generic may be called by code that is not walked.
            IEnumerable<string> names = type.IsGenericType ? uses.Called : type.GetMethods(All).Where(m => m.IsVirtual).Select(m => m.Name);
            foreach (string name in names) { AddOverrides(made, name); }
        }
    }

    private void AddOverrides(Type made, string name)
    {
        for (Type? type = made; type is { IsGenericType: true }; type = type.BaseType)
        {
            foreach (MethodInfo method in type.GetMethods(All))
            {
                if (method.IsVirtual && method.Name.EndsWith(name, StringComparison.Ordinal)) { Add(method); }
            }
        }
    }

    private Uses UsesOf(Type type)
    {
        var key = (type.Module, type.MetadataToken, Compiled(type));
        if (!_uses.TryGetValue(key, out Uses? uses)) { _uses.Add(key, uses = new([], [])); }
        return uses;
    }

    private void Add(MethodBase method)
    {
        if (method.IsAbstract || method.ContainsGenericParameters || !IsNew(method, Compiled(method))) { return; }
        _next.Enqueue(method);
        // It is called before the first use of what is static.
        if (method.DeclaringType is { IsGenericType: true, TypeInitializer: { } initializer }) { Add(initializer); }
    }

    private bool IsNew(MemberInfo member, string compiled) =>
        compiled.Length <= LengthMax && _known.Add((member.Module, member.MetadataToken, compiled));

    private static string Compiled(MethodBase method) => $"{(method.DeclaringType is { } type ? Compiled(type) : "")}"
        + (method.IsGenericMethod ? $"<{string.Join(',', method.GetGenericArguments().Select(CompiledArgument))}>" : "");

    // As what an argument is compiled: of all reference types together.
    private static string CompiledArgument(Type type) => !type.IsValueType ? "" : $"{type.Namespace}.{type.Name}{Compiled(type)}";

    private static string Compiled(Type type) =>
        type.IsGenericType ? $"<{string.Join(',', type.GenericTypeArguments.Select(CompiledArgument))}>" : "";

    // The methods that a method calls.
    private static IEnumerable<MethodBase> CalledBy(MethodBase method)
    {
        if (method.GetMethodBody()?.GetILAsByteArray() is not { } code) { yield break; }
        Type[] ofType = method.DeclaringType?.GenericTypeArguments ?? [];
        Type[] ofMethod = method.IsGenericMethod ? method.GetGenericArguments() : [];
        Type? constrained = null;
        for (int at = 0; at < code.Length;)
        {
            short op = code[at++];
            // An instruction of two bytes.
            if (op == 0xFE) { op = (short)(0xFE00 | code[at++]); }
            OperandType operand = s_operands[op];
            // A call by an interface of a value, which is not made an object for that.
            if (op == OpCodes.Constrained.Value) { constrained = Resolved(method.Module, code.AsSpan(at), ofType, ofMethod) as Type; }
            else if (operand == OperandType.InlineMethod && Resolved(method.Module, code.AsSpan(at), ofType, ofMethod) is MethodBase called)
            {
                yield return constrained is { IsGenericType: true, IsValueType: true } && Override(constrained, called.Name) is { } own
                    ? own : called;
                constrained = null;
            }
            at += operand switch
            {
                OperandType.InlineNone => 0,
                OperandType.ShortInlineBrTarget or OperandType.ShortInlineI or OperandType.ShortInlineVar => 1,
                OperandType.InlineVar => 2,
                OperandType.InlineI8 or OperandType.InlineR => 8,
                OperandType.InlineSwitch => 4 + (4 * BinaryPrimitives.ReadInt32LittleEndian(code.AsSpan(at))),
                _ => 4,
            };
        }
    }

    private static MethodInfo? Override(Type type, string name) =>
        type.GetMethods(All).FirstOrDefault(m => m.IsVirtual && m.Name.EndsWith(name, StringComparison.Ordinal));

    private static MemberInfo? Resolved(Module module, ReadOnlySpan<byte> token, Type[] ofType, Type[] ofMethod)
    {
        try
        {
            return module.ResolveMember(BinaryPrimitives.ReadInt32LittleEndian(token), ofType, ofMethod);
        }
        catch (Exception)
        {
            // Of a part of the framework that is not there, or not allowed as an argument: nobody calls it.
            return null;
        }
    }
}
