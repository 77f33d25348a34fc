// These tests run where the product is built: on Unix.
[assembly: System.Runtime.Versioning.UnsupportedOSPlatform("windows")]
