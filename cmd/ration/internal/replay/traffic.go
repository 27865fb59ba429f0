// Package replay decides the requests of an access log as Redis would have decided them when they came, in virtual time.
package replay

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-ration/ration/cmd/ration/internal/accesslog"
)

// By says what of a request the quota is charged to.
type By string

// The choices of By. A line without the field, or whose request has none, is charged to "-".
const (
	ByIP        By = "ip"
	ByPath      By = "path" // without its query; the whole request if it is none that has a path
	ByUserAgent By = "user-agent"
	ByMethod    By = "method"
)

var choices = map[By]func(accesslog.Entry) string{
	ByIP:     func(e accesslog.Entry) string { return e.Host },
	ByPath:   accesslog.Entry.Path,
	ByMethod: accesslog.Entry.Method,
	ByUserAgent: func(e accesslog.Entry) string {
		if !e.Combined {
			return "-"
		}
		return e.UserAgent
	},
}

// Valid says whether by is one of the choices.
func (by By) Valid() bool { return choices[by] != nil }

// Traffic is the requests of a log.
type Traffic struct {
	Requests    int
	First, Last time.Time // of the requests, in UTC
	Malformed   Malformed

	// keys are the requests of each key. Keys share nothing, so that the order between them does not matter.
	keys []arrivals
}

// arrivals are the requests of a key.
type arrivals struct {
	key     string
	seconds []int64 // since 1970, ascending
}

// Malformed is the lines of a log that were not understood.
type Malformed struct {
	Count int
	First []accesslog.Line // at most mostShown of them, in the order of the log
}

// mostShown bounds the malformed lines that are kept to be shown.
const mostShown = 5

// Read reads a log to its end and puts its requests in the order of their times. A malformed line is counted and left out.
func Read(r *accesslog.Reader, by By) (*Traffic, error) {
	var t Traffic
	charge := choices[by]
	index := make(map[string]int) // in t.keys
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if line.Err != nil {
			t.Malformed.add(line)
			continue
		}
		key := charge(line.Entry)
		i, found := index[key]
		if !found {
			key = strings.Clone(key) // so that the rest of the line can go
			i = len(t.keys)
			index[key] = i
			t.keys = append(t.keys, arrivals{key: key})
		}
		t.keys[i].seconds = append(t.keys[i].seconds, line.Entry.Time.Unix())
	}
	t.arrange()
	return &t, nil
}

// arrange puts the requests of each key in order. Requests of one key in one second are all alike.
func (t *Traffic) arrange() {
	var first, last []int64
	for _, a := range t.keys {
		slices.Sort(a.seconds)
		t.Requests += len(a.seconds)
		first = append(first, a.seconds[0])
		last = append(last, a.seconds[len(a.seconds)-1])
	}
	if t.Requests > 0 {
		t.First, t.Last = at(slices.Min(first)), at(slices.Max(last))
	}
}

func (m *Malformed) add(line accesslog.Line) {
	m.Count++
	if len(m.First) < mostShown {
		m.First = append(m.First, line)
	}
}

func at(second int64) time.Time { return time.Unix(second, 0).UTC() }
