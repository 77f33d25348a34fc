// What is done for the first time takes the runtime tens of milliseconds, since methods are compiled when they are first called; and a failover should take few. So what a failover will need of
// this program is compiled while nobody waits for it.
//
// Of what the program consists of that is easily said: all methods. But most that is compiled in a failover are methods of the framework made for types of the program: what an await
// does with a state machine, collections of structs. They are found where they are called: in the code of the methods, whose calls are followed.
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;

namespace Slogger.Proxy.Following;

/// <summary>Compiles methods ahead of their first call. For one thread.</summary>
internal sealed class Readiness
{
    private const BindingFlags All = BindingFlags.DeclaredOnly | BindingFlags.Instance | BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic;

    // Types that are made of each other could go on for ever.
    private const int NestedMax = 6, MethodsMax = 100_000;
    private static readonly Dictionary<int, OpCode> s_codes = typeof(OpCodes).GetFields().Select(f => (OpCode)f.GetValue(null)!).ToDictionary(c => (int)(ushort)c.Value);

    private readonly Queue<MethodBase> _methods = new();
    private readonly HashSet<(nint, Type?)> _known = [];
    private readonly HashSet<Type> _types = [];

    private Readiness()
    {
    }

    /// <summary>Begins to compile all methods of some assemblies, and what they call and nobody has compiled. Completes when that is done, with their number.</summary>
    public static Task<int> PrepareAsync(IReadOnlyList<Assembly> assemblies)
    {
        var done = new TaskCompletionSource<int>(TaskCreationOptions.RunContinuationsAsynchronously);
        var thread = new Thread(() => done.SetResult(new Readiness().Prepare(assemblies))) { Name = "readiness", IsBackground = true, Priority = ThreadPriority.BelowNormal };
        thread.Start();
        return done.Task;
    }

    private int Prepare(IReadOnlyList<Assembly> assemblies)
    {
        foreach (Type type in assemblies.SelectMany(a => a.GetTypes()).Where(t => !t.ContainsGenericParameters))
        {
            foreach (MethodBase method in type.GetMembers(All).OfType<MethodBase>()) { Add(method); }
        }
        while (_methods.TryDequeue(out MethodBase? method))
        {
            try
            {
                Compile(method);
                foreach (MemberInfo member in MembersIn(method))
                {
                    if (member is MethodBase callee) { AddCalled(callee); }
                    else if (member is Type type) { AddType(type); }
                }
            }
            catch (Exception e) when (e is NotSupportedException or InvalidProgramException or TypeLoadException or PlatformNotSupportedException or BadImageFormatException or EntryPointNotFoundException
                or DllNotFoundException or IOException or ArgumentException or MissingMemberException or InvalidOperationException)
            {
                // Not for this machine: it is not called here either.
            }
        }
        return _known.Count;
    }

    private static void Compile(MethodBase method)
    {
        RuntimeTypeHandle[] arguments = [.. ArgumentsOf(method).Select(t => t.TypeHandle)];
        if (arguments.Length == 0) { RuntimeHelpers.PrepareMethod(method.MethodHandle); }
        else { RuntimeHelpers.PrepareMethod(method.MethodHandle, arguments); }
    }

    private void Add(MethodBase method)
    {
        if (!method.IsAbstract && !method.ContainsGenericParameters && _known.Count < MethodsMax && _known.Add((method.MethodHandle.Value, method.DeclaringType))) { _methods.Enqueue(method); }
    }

    private void AddCalled(MethodBase callee)
    {
        Type[] arguments = ArgumentsOf(callee);
        foreach (Type type in arguments) { AddType(type); }
        if (callee.DeclaringType is { } declaring) { AddType(declaring); }
        if (IsToBeMade(callee.Module.Assembly, arguments)) { Add(callee); }
    }

    // What is called through an interface, or a class below it, is not found where it is called.
    private void AddType(Type type)
    {
        if (!type.IsGenericType || type.ContainsGenericParameters || !IsToBeMade(type.Assembly, type.GetGenericArguments()) || !_types.Add(type)) { return; }
        foreach (Type argument in type.GetGenericArguments()) { AddType(argument); }
        if (type.BaseType is { } parent) { AddType(parent); }
        foreach (MethodBase method in type.GetMembers(All).OfType<MethodBase>().Where(m => m.IsVirtual || m is ConstructorInfo { IsStatic: true })) { Add(method); }
    }

    // The framework's own code is compiled; for references it is shared.
    private static bool IsToBeMade(Assembly assembly, Type[] arguments) =>
        (arguments.Any(t => t.IsValueType) || assembly.Location.StartsWith(AppContext.BaseDirectory, StringComparison.Ordinal)) && arguments.All(t => Depth(t) < NestedMax);

    private static int Depth(Type type) => type.IsGenericType ? 1 + type.GetGenericArguments().Max(Depth) : 0;

    private static Type[] ArgumentsOf(MethodBase method) =>
        [.. method.DeclaringType is { IsGenericType: true } declaring ? declaring.GetGenericArguments() : [], .. method.IsGenericMethod ? method.GetGenericArguments() : []];

    // What a method's code names: methods and types.
    private static List<MemberInfo> MembersIn(MethodBase method)
    {
        List<MemberInfo> members = [];
        if (method.GetMethodBody() is not { } body || body.GetILAsByteArray() is not { } code) { return members; }
        Type[]? typeArguments = method.DeclaringType is { IsGenericType: true } declaring ? declaring.GetGenericArguments() : null, methodArguments = method.IsGenericMethod ? method.GetGenericArguments() : null;
        members.AddRange(body.LocalVariables.Select(l => l.LocalType));
        for (int at = 0; at < code.Length;)
        {
            int value = code[at++];
            if (value == 0xFE) { value = 0xFE00 | code[at++]; }
            OperandType operand = s_codes[value].OperandType;
            if (operand is OperandType.InlineMethod or OperandType.InlineType or OperandType.InlineTok && method.Module.ResolveMember(BitConverter.ToInt32(code, at), typeArguments, methodArguments) is { } member)
            {
                members.Add(member);
            }
            at += operand switch
            {
                OperandType.InlineNone => 0,
                OperandType.ShortInlineBrTarget or OperandType.ShortInlineI or OperandType.ShortInlineVar => 1,
                OperandType.InlineVar => 2,
                OperandType.InlineI8 or OperandType.InlineR => 8,
                OperandType.InlineSwitch => 4 + (4 * BitConverter.ToInt32(code, at)),
                _ => 4,
            };
        }
        return members;
    }
}
