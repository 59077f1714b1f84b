package leasewayhttp

import (
	"strconv"
	"sync/atomic"
	"time"
)

// moments are the texts of the seconds around now, as X-RateLimit-Reset tells them: the responses of a second share theirs, as
// strings, which nobody can write to. The zero value has none yet.
type moments struct {
	each [momentsKept]atomic.Pointer[moment]
}

type moment struct {
	unix int64
	text string
}

// Budgets that are whole again within a minute share their seconds with others, while what takes days is another second for
// each key. Two seconds of one place are farther apart than that, so that they do not drive each other out.
const (
	momentsNear = time.Minute
	momentsKept = 128
)

// text returns the text of a second since the Unix epoch.
func (m *moments) text(unix int64) string {
	place := &m.each[uint64(unix)%momentsKept]
	if known := place.Load(); known != nil && known.unix == unix {
		return known.text
	}
	made := &moment{unix: unix, text: strconv.FormatInt(unix, 10)}
	place.Store(made)
	return made.text
}
