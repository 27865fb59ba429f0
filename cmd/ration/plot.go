package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/go-ration/ration/cmd/ration/internal/breakage"
	"github.com/go-ration/ration/cmd/ration/internal/chart"
	"github.com/go-ration/ration/cmd/ration/internal/drill"
	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

// plot is the picture that --plot asks for, or none.
type plot struct {
	file   *newFile // nil for none
	format chart.Format
}

// newPlot begins the picture of how many plans at a path, so that what is wrong with the path shows at once. An empty path
// is none.
func newPlot(path string, plans int) (plot, error) {
	if path == "" {
		return plot{}, nil
	}
	p := plot{format: chart.Format(strings.ToLower(filepath.Ext(path)))}
	switch {
	case !p.format.Valid():
		return plot{}, fmt.Errorf("--plot %s: want a file that ends in .svg or .png", path)
	case plans > chart.MaxPanels:
		return plot{}, fmt.Errorf("--plot %s: %d plans: at most %d can be drawn", path, plans, chart.MaxPanels)
	}
	var err error
	if p.file, err = createFile(path); err != nil {
		return plot{}, fmt.Errorf("--plot %s: %w", path, err)
	}
	return p, nil
}

// draw draws the picture of what plans let through, and puts it in its place.
func (p plot) draw(name string, t simulate.Trace, outcomes []simulate.Outcome) error {
	return p.put(func(w io.Writer) error { return chart.Draw(w, p.format, traceTitle(name, t), t, outcomes) })
}

// drawDrill draws the picture of an outage, and puts it in its place.
func (p plot) drawDrill(r drill.Run) error {
	return p.put(func(w io.Writer) error { return chart.DrawTimeline(w, p.format, timeline(r)) })
}

// timeline is a run as it is drawn.
func timeline(r drill.Run) chart.Timeline {
	const binsOfPhase = 8 // and of the first one, which is shorter, 6: so that a bin is in one phase, but for milliseconds
	bin := r.PhaseLength / binsOfPhase
	bins := max(int((r.End()+bin*9/10)/bin), 1) // a run takes some milliseconds longer than planned
	redis, policy := make([]int64, bins), make([]int64, bins)
	for _, d := range r.Samples {
		switch n := int(d.At / bin); {
		case !d.Admitted || n >= bins:
		case d.ByRedis:
			redis[n]++
		default:
			policy[n]++
		}
	}
	t := chart.Timeline{
		Title:  fmt.Sprintf("%v, shared by %s", r.Plan, count(r.Instances, "instance")),
		Bin:    bin,
		Layers: []chart.Layer{{Name: "admitted by Redis", Counts: redis}, {Name: "admitted by policy " + string(r.Policy), Counts: policy}},
		Rate:   r.Rate,
	}
	for _, p := range r.Phases {
		if p.State != breakage.Healthy {
			t.Phases = append(t.Phases, chart.Phase{Name: "Redis " + string(p.State), From: p.From, Until: p.Until})
		}
	}
	return t
}

// put draws the picture, if there is to be one, and puts it in its place.
func (p plot) put(draw func(io.Writer) error) error {
	if p.file == nil {
		return nil
	}
	err := draw(p.file)
	if err == nil {
		err = p.file.commit()
	}
	if err != nil {
		return fmt.Errorf("--plot %s: %w", p.file.path, err)
	}
	return nil
}

// discard leaves nothing behind of a picture that was not drawn.
func (p plot) discard() {
	if p.file != nil {
		p.file.discard()
	}
}
