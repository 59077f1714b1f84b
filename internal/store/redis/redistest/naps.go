package redistest

import "go.uber.org/goleak"

// DriverNaps are goroutines that a test may leave behind: the driver sleeps, a few
// seconds at most and whether it was closed or not, before it asks for the cluster's
// slots again, and before it closes connections to nodes that have left.
func DriverNaps() []goleak.Option {
	const driver = "github.com/redis/rueidis."

	return []goleak.Option{
		goleak.IgnoreAnyFunction(driver + "(*clusterClient)._refresh.func2"), goleak.IgnoreAnyFunction(driver + "(*call).DelayDo.func1"),
	}
}
