using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Configuration;

/// <summary>Short ways to make layers and read them.</summary>
internal static class Layers
{
    public static OptionLayer CommandLine(params (string Name, string Text)[] values) => Of("the command line", values);

    public static OptionLayer Environment(params (string Name, string Text)[] values)
        => OptionLayer.FromEnvironment(values.ToDictionary(value => value.Name, value => value.Text));

    public static OptionsResult<ServeOptions> Serve(params (string Name, string Text)[] values)
        => ServeOptionsReader.ReadServe(CommandLine(values), new OptionLayer());

    public static ServeOptions Good(params (string Name, string Text)[] values)
    {
        OptionsResult<ServeOptions> result = Serve([("redis", "127.0.0.1:6379"), .. values]);
        Assert.Empty(result.Errors);
        return result.Options!;
    }

    private static OptionLayer Of(string origin, (string Name, string Text)[] values)
    {
        OptionLayer layer = new();
        foreach (IGrouping<string, (string Name, string Text)> group in values.GroupBy(value => value.Name))
        {
            layer.Values[group.Key] = new OptionTexts([.. group.Select(value => value.Text)], origin);
        }

        return layer;
    }
}
