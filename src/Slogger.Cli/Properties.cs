using System.Runtime.CompilerServices;

[assembly: InternalsVisibleTo("Slogger.Cli.Tests")]
