package chart

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

const (
	titleGap = 4 * vg.Length(1) // between a panel and its title
	sideBins = 2                // left free beside the others
)

var unitTicks = ticker{steps: 4, least: 1}

// newPanel makes the panel of an outcome: what arrived, and in front of it what of that was admitted.
func newPanel(b bins, t simulate.Trace, o simulate.Outcome) *plot.Plot {
	arrived := b.units(t, func(int) bool { return true })
	admitted := b.units(t, func(i int) bool { return o.Allowed[i] })

	p := plot.New()
	p.Title.Text = " " // keeps its place
	p.Title.TextStyle = textStyle(panelSize)
	p.Title.Padding = titleGap

	scale(&p.X, max(b.start(-sideBins), 0), b.start(b.count+sideBins), timeTicks(b))
	scale(&p.Y, 0, 1.05*max(slices.Max(arrived), 1), unitTicks)
	p.Y.Label.Text = "units / " + b.name()
	p.Add(grid(), area{b, arrived, arrivedColour}, area{b, admitted, admittedColour})
	return p
}

// scale sets up an axis from least to most.
func scale(a *plot.Axis, least, most float64, marks plot.Ticker) {
	a.Min, a.Max = least, most
	a.Tick.Marker = marks
	a.Padding = 0
	a.LineStyle.Color = textColour
	a.Tick.LineStyle.Color = textColour
	a.Tick.Length = 3
	for _, style := range []*draw.TextStyle{&a.Label.TextStyle, &a.Tick.Label} {
		style.Font = textStyle(smallSize).Font
		style.Color = textColour
	}
}

// drawPanelTitle writes what a panel shows above it: as one text, since the fonts of whoever looks at an SVG may be wider.
func drawPanelTitle(p *plot.Plot, c draw.Canvas, o simulate.Outcome) {
	area := p.DataCanvas(c)
	area.FillText(boldStyle(panelSize), vg.Point{X: area.Min.X, Y: area.Max.Y + titleGap},
		fmt.Sprintf("%s: %d of %d admitted, peak %d in 1 s", o.Plan, o.Admitted, o.Admitted+o.Denied, o.Peak1s))
}
