[assembly: System.Runtime.CompilerServices.InternalsVisibleTo("Slogger.Redis.Tests")]
