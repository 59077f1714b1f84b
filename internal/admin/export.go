package admin

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/leaseway/leaseway/internal/rulestore"
)

type exportInput struct {
	Rule   string `doc:"Only those of this rule." maxLength:"64"           query:"rule"`
	Format string `default:"ndjson"               doc:"How to write them." enum:"ndjson,csv" query:"format"`
}

// exportOverrides writes them as they are read: none but those under way are in memory.
func (d *Door) exportOverrides(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	p := caller(ctx)

	if in.Rule != "" && !p.mayRule(in.Rule) {
		return nil, refuse(http.StatusForbidden, "this rule is not yours")
	}

	// The first is read before the answer begins, so that a store that is down is a problem like any other.
	next, stop := iter.Pull2(d.config.Store.Overrides(ctx, rulestore.Query{Rule: in.Rule}))

	first, err, more := next()
	if more && err != nil && rulestore.CodeOf(err) != rulestore.Invalid {
		stop()

		return nil, explain(err, false)
	}

	if !more && in.Rule != "" {
		stop()

		if err := d.mustKnow(ctx, in.Rule); err != nil {
			return nil, err
		}
	}

	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer stop()

		_, writer := humago.Unwrap(hctx)
		control := http.NewResponseController(writer)
		buffer := bufio.NewWriter(hctx.BodyWriter())

		hctx.SetHeader("Content-Type", typeJSONLines)

		if in.Format == "csv" {
			hctx.SetHeader("Content-Type", typeCSV)
		}

		hctx.SetHeader("Cache-Control", noStore)
		hctx.SetStatus(http.StatusOK)

		write := lineWriter(buffer, in.Format)

		for n, o := 0, first; more; o, err, more = next() {
			switch {
			case err != nil && rulestore.CodeOf(err) == rulestore.Invalid:
				d.log.Warn("an override that was put in by hand is left out of an export", "error", err)

				continue
			case err != nil:
				d.log.Error("an export broke off", "error", err)
				panic(http.ErrAbortHandler) // so that nobody takes a part for the whole
			case !p.mayRule(o.Rule):
				continue
			}

			if n%progressEvery == 0 {
				_ = control.SetWriteDeadline(time.Now().Add(slowest)) // by the clock of the connection
			}

			n++

			if write(&o) != nil {
				return // nobody reads any more
			}
		}

		_ = buffer.Flush()
	}}, nil
}

// lineWriter writes overrides in a format.
func lineWriter(buffer *bufio.Writer, format string) func(*rulestore.Override) error {
	if format != "csv" {
		encoder := json.NewEncoder(buffer)
		encoder.SetEscapeHTML(false)

		return func(o *rulestore.Override) error { return encoder.Encode(textOf(o)) }
	}

	writer := csv.NewWriter(buffer)
	row := columnNames()
	_ = writer.Write(row) // what fails shows at the end

	return func(o *rulestore.Override) error {
		text := textOf(o)
		row = text.row(row)
		err := writer.Write(row)
		writer.Flush()

		return errors.Join(err, writer.Error())
	}
}
