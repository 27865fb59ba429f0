package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/go-ration/ration/cmd/ration/internal/chart"
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

// draw draws the picture and puts it in its place.
func (p plot) draw(name string, t simulate.Trace, outcomes []simulate.Outcome) error {
	if p.file == nil {
		return nil
	}
	err := chart.Draw(p.file, p.format, traceTitle(name, t), t, outcomes)
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
