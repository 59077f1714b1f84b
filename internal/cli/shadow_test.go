package cli

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func TestSheddersInShadowModeAreReported(t *testing.T) {
	t.Parallel()

	const metrics = `# TYPE leaseway_shed_total counter
leaseway_shed_total{class="read",mode="enforce",shedder="worker"} 7
leaseway_shed_total{class="read",mode="shadow",shedder="worker"} 3
leaseway_shed_total{class="write",mode="shadow",shedder="worker"} 0
`

	parser := expfmt.NewTextParser(model.UTF8Validation)

	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	if err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	if err := writeShadows(&out, shadowShedders(families["leaseway_shed_total"], []string{"worker", "fleet"})); err != nil {
		t.Fatal(err)
	}

	const want = "IN SHADOW MODE              WOULD HAVE REFUSED  OF  SHARE\n" +
		"worker shedder, class read  3                   -   -\n" +
		"fleet shedder               0                   -   -\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
