// Measures the whole system from outside: see README.md beside this file's project. `drain` and `paced` are child
// processes of the bench itself.
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Bench;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

CultureInfo.DefaultThreadCurrentCulture = CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
try
{
    return args switch
    {
        ["drain", string port, string sleepUs] => DrainReplica.Run(int.Parse(port), int.Parse(sleepUs)),
        ["paced", string json] => PacedLoad.Run(json),
        ["selfcheck"] => SelfCheck.Run(),
        ["plot", .. string[] words] => Slogger.Bench.Plots.PlotCommand.Run(words),
        _ => Measure(BenchOptions.Parse(args)),
    };
}
catch (BenchException e)
{
    Console.Error.WriteLine(e.Message);
    return 2;
}

static int Measure(BenchOptions options)
{
    using var sigint = PosixSignalRegistration.Create(PosixSignal.SIGINT, Interrupted);
    using var sigterm = PosixSignalRegistration.Create(PosixSignal.SIGTERM, Interrupted);
    var results = new Results(MachineInfo.Read(options.ProxyPath), options);
    try
    {
        SuiteCatalog.Run(options, results);
    }
    catch (Exception) when (ProcessRegistry.IsClosed)
    {
        // The interruption stops everything, under the suite too, and ends the process.
        Thread.Sleep(Timeout.Infinite);
    }
    finally
    {
        ProcessRegistry.StopAll();
        SuiteDirectory.EndWhatWorksThere();
        SuiteDirectory.DeleteAll(options);
        results.Save();
    }

    Console.WriteLine();
    Console.WriteLine(MarkdownReport.Write(results));
    return 0;

    // What was measured so far is in the files already; what runs is stopped by pid.
    void Interrupted(PosixSignalContext context)
    {
        context.Cancel = true;
        Console.Error.WriteLine("interrupted: stopping what was started");
        ProcessRegistry.Close();
        ProcessRegistry.StopAll();
        SuiteDirectory.EndWhatWorksThere();
        SuiteDirectory.DeleteAll(options);
        Environment.Exit(130);
    }
}
