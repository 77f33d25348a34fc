// Plots as SVG.
using OxyPlot;
using OxyPlot.Axes;
using OxyPlot.Legends;
using OxyPlot.Series;

namespace Slogger.Bench.Plots;

/// <summary>Whose figure it is.</summary>
internal enum Whose { Ours, Redis, Paper }

/// <summary>A bar.</summary>
/// <param name="Label">What it is of.</param>
/// <param name="Value">How long it is.</param>
/// <param name="Whose">Its colour.</param>
internal readonly record struct PlotBar(string Label, double Value, Whose Whose);

/// <summary>A line; of one point, a mark.</summary>
/// <param name="Label">What it is of.</param>
/// <param name="Points">From left to right.</param>
/// <param name="Whose">Of a paper: marks alone.</param>
internal sealed record PlotLine(string Label, IReadOnlyList<(double X, double Y)> Points, Whose Whose);

internal static class Drawing
{
    private const int Width = 940, LinesHeight = 460, BarsTop = 120, BarHeight = 34, TitleDistance = 10, LabelMargin = 8;

    /// <summary>Bars from top to bottom, with their values beside them.</summary>
    public static void Bars(string path, string title, string axis, bool isLogarithmic, IReadOnlyList<PlotBar> bars)
    {
        PlotModel plot = New(title);
        var labels = new CategoryAxis { Position = AxisPosition.Left, StartPosition = 1, EndPosition = 0, GapWidth = 0.4 };
        labels.Labels.AddRange(bars.Select(b => b.Label));
        plot.Axes.Add(labels);
        double highest = bars.Max(b => b.Value), lowest = isLogarithmic ? Math.Pow(10, Math.Floor(Math.Log10(bars.Min(b => b.Value)))) : 0;
        plot.Axes.Add(isLogarithmic
            ? new LogarithmicAxis
            {
                Position = AxisPosition.Bottom, Title = axis, AxisTitleDistance = TitleDistance, Minimum = lowest, Maximum = highest * 4,
            }
            : new LinearAxis
            {
                Position = AxisPosition.Bottom, Title = axis, AxisTitleDistance = TitleDistance, Minimum = 0, Maximum = highest * 1.15,
            });
        foreach (Whose whose in Enum.GetValues<Whose>())
        {
            var series = new BarSeries
            {
                Title = NameOf(whose), FillColor = ColourOf(whose), BaseValue = lowest, IsStacked = true, OverlapsStack = true,
                LabelPlacement = LabelPlacement.Outside, LabelMargin = LabelMargin, LabelFormatString = "{0:0.###}",
            };
            for (int i = 0; i < bars.Count; i++)
            {
                if (bars[i].Whose == whose) { series.Items.Add(new BarItem(bars[i].Value, i)); }
            }
            if (series.Items.Count > 0) { plot.Series.Add(series); }
        }
        Save(plot, path, BarsTop + (BarHeight * bars.Count));
    }

    /// <summary>Lines over a logarithmic axis.</summary>
    public static void Lines(string path, string title, string across, string upwards, IReadOnlyList<PlotLine> lines)
    {
        PlotModel plot = New(title);
        plot.Axes.Add(new LogarithmicAxis
        {
            Position = AxisPosition.Bottom, Title = across, AxisTitleDistance = TitleDistance, MajorGridlineStyle = LineStyle.Dot,
            StringFormat = "#,0",
        });
        plot.Axes.Add(new LinearAxis
        {
            Position = AxisPosition.Left, Title = upwards, AxisTitleDistance = TitleDistance, MajorGridlineStyle = LineStyle.Dot,
            Minimum = 0,
        });
        plot.Legends[0].LegendPosition = LegendPosition.RightTop;
        plot.Legends[0].LegendOrientation = LegendOrientation.Vertical;
        MarkerType[] marks = [MarkerType.Circle, MarkerType.Square, MarkerType.Triangle, MarkerType.Diamond];
        foreach ((PlotLine line, int i) in lines.Select((l, i) => (l, i)))
        {
            bool isPaper = line.Whose == Whose.Paper;
            var series = new LineSeries
            {
                Title = line.Label, LineStyle = isPaper ? LineStyle.None : LineStyle.Solid,
                MarkerType = isPaper ? MarkerType.Star : marks[i % marks.Length], MarkerSize = isPaper ? 8 : 4,
            };
            if (isPaper) { series.MarkerStroke = ColourOf(Whose.Paper); }
            series.Points.AddRange(line.Points.Select(p => new DataPoint(p.X, p.Y)));
            plot.Series.Add(series);
        }
        Save(plot, path, LinesHeight);
    }

    private static PlotModel New(string title)
    {
        var plot = new PlotModel { Title = title, TitleFontSize = 14, Background = OxyColors.White };
        plot.Legends.Add(new Legend { LegendPlacement = LegendPlacement.Outside, LegendPosition = LegendPosition.BottomCenter,
            LegendOrientation = LegendOrientation.Horizontal });
        return plot;
    }

    private static void Save(PlotModel plot, string path, int height)
    {
        using FileStream file = File.Create(path);
        new SvgExporter { Width = Width, Height = height, TextMeasurer = new LargerText(height) }.Export(plot, file);
        Console.WriteLine(path);
    }

    // Whoever looks at it may have larger letters than those that are measured.
    private sealed class LargerText(int height) : PdfRenderContext(Width, height, OxyColors.White)
    {
        private const double Wider = 1.6, Higher = 1.4;

        public override OxySize MeasureText(string text, string fontFamily, double fontSize, double fontWeight)
        {
            OxySize size = base.MeasureText(text, fontFamily, fontSize, fontWeight);
            return new(size.Width * Wider, size.Height * Higher);
        }
    }

    private static string NameOf(Whose whose) => whose switch { Whose.Ours => "Slogger", Whose.Redis => "Redis alone", _ => "a paper" };

    private static OxyColor ColourOf(Whose whose) => whose switch
    {
        Whose.Ours => OxyColors.SteelBlue,
        Whose.Redis => OxyColors.IndianRed,
        _ => OxyColors.Gray,
    };
}
