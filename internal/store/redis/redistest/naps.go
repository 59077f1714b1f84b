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

// ProxyRemains are goroutines that toxiproxy leaves behind for good where a connection broke under its hands, or a toxic was on as
// it stopped: it ends what reads from a chain of toxics, and not what writes into it.
func ProxyRemains() []goleak.Option {
	const proxy = "github.com/Shopify/toxiproxy/v2"

	return []goleak.Option{
		goleak.IgnoreAnyFunction(proxy + ".(*ToxicLink).read"),
		goleak.IgnoreAnyFunction(proxy + ".(*ToxicLink).write"),
		goleak.IgnoreAnyFunction(proxy + "/toxics.(*ToxicStub).Run"), // whichever toxic it runs
	}
}
