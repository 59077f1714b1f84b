package leasewayhttp

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

func TestCallersLowerTheirClassAndTrustedProxiesSetIt(t *testing.T) {
	for _, row := range []struct {
		header         string
		trusted        bool
		class, lowerTo rule.Class
	}{
		{"", false, rule.ClassUnset, rule.ClassUnset},
		{"test", false, rule.ClassUnset, rule.ClassTest},
		{"critical", false, rule.ClassUnset, rule.ClassCritical}, // which lowers nothing
		{"Read", false, rule.ClassUnset, rule.ClassRead},
		{"urgent", false, rule.ClassUnset, rule.ClassUnset},
		{"critical", true, rule.ClassCritical, rule.ClassUnset},
		{"urgent", true, rule.ClassUnset, rule.ClassUnset},
	} {
		v := &verdict{decision: allowed()}

		var opts []Option
		if row.trusted {
			opts = append(opts, WithTrustedProxies(netip.MustParsePrefix("192.0.2.0/24"))) // where httptest's requests come from
		}

		r := get("/")
		if row.header != "" {
			r.Header.Set("Leaseway-Class", row.header)
		}

		serve(newMiddleware(v, opts), r)

		if v.last.Class != row.class || v.last.LowerTo != row.lowerTo {
			t.Errorf("%+v gave class %v, lowered to %v", row, v.last.Class, v.last.LowerTo)
		}
	}
}

func TestAttributesHaveTheLastWordOnTheClass(t *testing.T) {
	v := &verdict{decision: allowed()}
	r := get("/")
	r.Header.Set("Leaseway-Class", "test")
	serve(newMiddleware(v, []Option{WithAttributes(func(_ *http.Request, req *leaseway.Request) {
		if req.LowerTo != rule.ClassTest {
			t.Errorf("the attributes are shown %v", req.LowerTo)
		}
		req.Class, req.LowerTo = rule.ClassCritical, rule.ClassUnset
	})}), r)
	if v.last.Class != rule.ClassCritical || v.last.LowerTo != rule.ClassUnset {
		t.Errorf("got %v, lowered to %v", v.last.Class, v.last.LowerTo)
	}
}
