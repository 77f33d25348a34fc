namespace Slogger.Bench.Report;

/// <summary>Values in order.</summary>
internal sealed class Sorted(IEnumerable<double> values)
{
    private readonly double[] _values = [.. values.Order()];

    /// <summary>NaN if there is none.</summary>
    public double Mean => _values.Length == 0 ? double.NaN : _values.Average();

    /// <summary>A quantile: 0.5 is the median, 1 the highest. NaN if there is none.</summary>
    public double At(double share) => _values.Length == 0 ? double.NaN
        : _values[(int)Math.Min(_values.Length - 1, share * _values.Length)];
}
