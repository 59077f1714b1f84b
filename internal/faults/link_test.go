//go:build unix

package faults

import (
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/leaseway/leaseway/internal/proctest"
)

// link is a network between holders and one coordinator that can be made bad.
type link struct {
	*toxiproxy.Proxy

	t *testing.T
}

// newLink returns a good one to upstream.
func newLink(t *testing.T, upstream string) *link {
	t.Helper()

	nowhere := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &link{t: t, Proxy: toxiproxy.NewProxy(nowhere, t.Name(), proctest.FreeAddress(t), upstream)}
	l.up()
	t.Cleanup(l.Stop)

	return l
}

// up lets connections through again after Stop, which refuses new ones and cuts those that stand.
func (l *link) up() {
	l.t.Helper()

	if err := l.Start(); err != nil {
		l.t.Fatal(err)
	}
}

// poison makes the link bad, both ways: a toxic's type and its attributes as JSON.
func (l *link) poison(kind, attributes string) {
	l.t.Helper()

	for _, stream := range []string{"upstream", "downstream"} {
		toxic := `{"name": "` + stream + `", "type": "` + kind + `", "stream": "` + stream + `", "attributes": ` + attributes + `}`
		if _, err := l.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			l.t.Fatal(err)
		}
	}
}

// cure makes the link good again.
func (l *link) cure() { l.Toxics.ResetToxics(l.t.Context()) }
