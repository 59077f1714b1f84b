package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/leaseway/leaseway/internal/rulestore"
)

const (
	typeJSONLines = "application/x-ndjson"
	typeCSV       = "text/csv"

	// progressEvery is how many lines are read between two notes of progress, and between two looks at the clock.
	progressEvery = 10_000
	// slowest is how long so many lines, or an answer, may take at most: whoever is slower is cut off.
	slowest = time.Minute
)

type (
	importInput struct {
		WriteQuery

		Rule     string `doc:"The rule of lines that name none."                                             maxLength:"64"   query:"rule"`
		Progress bool   `doc:"Answer with a line of JSON for every 10,000 overrides read, then the outcome." query:"progress"`

		http *exchange
	}
	// Progress is a line of an import that tells how far it is: the last one has a version, or a problem.
	Progress struct {
		Read int64 `doc:"Overrides read so far." json:"read"`

		Done    *Done    `doc:"The outcome, in the last line." json:"done,omitempty"`
		Problem *Problem `doc:"Or why nothing was written."    json:"problem,omitempty"`
	}
)

// exchange is a request whose body is read as it comes.
type exchange struct {
	request *http.Request
	control *http.ResponseController
}

// Resolve implements huma.Resolver: it keeps the request, whose body is not read before the handler runs.
func (in *importInput) Resolve(ctx huma.Context) []error {
	request, writer := humago.Unwrap(ctx)
	in.http = &exchange{request: request, control: http.NewResponseController(writer)}

	return nil
}

func (d *Door) registerStreams(api huma.API) {
	register(d, api, route{
		id: "import-overrides", method: http.MethodPost, path: "/admin/overrides/import", summary: "Import overrides",
		need: need{role: Operator},
		doc: "One a line, in NDJSON, or in CSV with the names of the columns in the first line: rule, key (or keyHex, keySha256), " +
			"secret, hint, limit, burst, leaseTtl, expires, note, delete. All of them take effect in one version, or none does: the " +
			"first bad line is the answer. At most 10,000,000 lines of 64 KiB; the last one of a key wins. An empty text is refused; " +
			"CSV with nothing but the names of the columns changes nothing.",
		text: true, takes: []string{typeJSONLines, typeCSV},
	}, func(ctx context.Context, in *importInput) (*huma.StreamResponse, error) {
		return d.importOverrides(ctx, api, in)
	})
	register(d, api, route{
		id: "export-overrides", method: http.MethodGet, path: "/admin/overrides/export", summary: "Export overrides",
		need: need{role: Viewer},
		doc:  "One a line, as import takes them; secret keys as their hashes. The connection breaks off if they cannot be read to the end.",
	}, d.exportOverrides)
}

// importOverrides reads and writes them as they come.
func (d *Door) importOverrides(ctx context.Context, api huma.API, in *importInput) (*huma.StreamResponse, error) {
	kind, _, _ := mime.ParseMediaType(in.http.request.Header.Get("Content-Type"))

	var lines lineReader

	switch body := in.http.request.Body; kind {
	case typeJSONLines, "application/jsonl", "application/ndjson":
		lines = newJSONLines(body)
	case typeCSV:
		lines = newCSVLines(body)
	default:
		return nil, refuse(http.StatusUnsupportedMediaType, "send the header Content-Type: %s or %s", typeJSONLines, typeCSV)
	}

	if in.Rule != "" && !caller(ctx).mayRule(in.Rule) { // which the record would name
		return nil, refuse(http.StatusForbidden, "this rule is not yours")
	}

	reader, err := d.overrideReader(ctx)
	if err != nil {
		return nil, err
	}

	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		run := &importRun{door: d, in: in, lines: lines, reader: reader, out: hctx.BodyWriter()}

		// The answer comes when the last line was read and stored, whatever time that takes: each step has its own.
		_ = in.http.control.SetWriteDeadline(time.Time{})

		if in.Progress {
			_ = in.http.control.EnableFullDuplex()

			hctx.SetHeader("Content-Type", typeJSONLines)
			hctx.SetHeader("Cache-Control", noStore)
			hctx.SetStatus(http.StatusOK)
		}

		done, err := run.run(ctx)
		problem, _ := errors.AsType[*Problem](err)

		_ = in.http.control.SetWriteDeadline(time.Now().Add(slowest)) // by the clock of the connection

		switch {
		case in.Progress:
			run.tell(Progress{Read: run.read, Done: done, Problem: problem})
		case problem != nil:
			writeProblem(api, hctx, problem)
		default:
			hctx.SetHeader("Content-Type", "application/json")
			hctx.SetHeader("Cache-Control", noStore)
			hctx.SetStatus(http.StatusOK)

			_ = json.NewEncoder(run.out).Encode(done)
		}
	}}, nil
}

// importRun is one import.
type importRun struct {
	door   *Door
	in     *importInput
	lines  lineReader
	reader *overrideReader
	out    io.Writer
	read   int64
}

// run writes them, or says why not: the error is a *Problem.
func (r *importRun) run(ctx context.Context) (*Done, error) {
	if r.in.DryRun {
		for _, err := range r.changes() {
			if err != nil {
				return nil, explain(err, false)
			}
		}

		return &Done{DryRun: true, Count: r.read}, nil
	}

	record, err := r.door.write(ctx, &rulestore.Change{
		Action: "overrides.import", Target: r.in.Rule, Reason: r.in.Reason, Overrides: r.changes(),
	}, false)
	if err != nil {
		return nil, err
	}

	return &Done{Version: record.Version, Count: record.Overrides}, nil
}

// changes are the lines, until one is bad.
func (r *importRun) changes() iter.Seq2[rulestore.OverrideChange, error] {
	return func(yield func(rulestore.OverrideChange, error) bool) {
		var line overrideLine

		for {
			if r.read%progressEvery == 0 {
				r.extend()

				if r.in.Progress && r.read > 0 {
					r.tell(Progress{Read: r.read})
				}
			}

			number, err := r.lines.next(&line)
			if errors.Is(err, io.EOF) {
				return
			}

			var o rulestore.Override

			if err == nil {
				if line.Rule == "" {
					line.Rule = r.in.Rule
				}

				o, err = r.reader.read(&line.OverrideText, line.Delete)
				err = onLine(err, number)
			}

			r.read++

			if !yield(rulestore.OverrideChange{Override: o, Delete: line.Delete}, err) || err != nil {
				return
			}
		}
	}
}

// extend gives the next lines their time.
func (r *importRun) extend() {
	_ = r.in.http.control.SetReadDeadline(time.Now().Add(slowest)) // by the clock of the connection
}

// tell writes a line to whoever waits. When it fails they have gone, and reading will end. Its deadline must not outlast it: the
// store may take longer, and a stream of HTTP/2 whose deadline has passed is gone.
func (r *importRun) tell(p Progress) {
	_ = r.in.http.control.SetWriteDeadline(time.Now().Add(slowest)) // by the clock of the connection
	defer func() { _ = r.in.http.control.SetWriteDeadline(time.Time{}) }()

	_ = json.NewEncoder(r.out).Encode(p) //nolint:errchkjson // as above
	_ = r.in.http.control.Flush()
}
