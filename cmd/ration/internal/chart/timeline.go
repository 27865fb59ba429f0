package chart

import (
	"image/color"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Timeline is what was admitted over time, by whom, while something was done.
type Timeline struct {
	Title  string
	Bin    time.Duration // how long is counted together
	Layers []Layer       // at least one and at most two, the first at the bottom
	Rate   float64       // a line, units a second
	Phases []Phase
}

// Layer is what was admitted by one of those who decide.
type Layer struct {
	Name   string
	Counts []int64 // in each bin; all layers have as many
}

// Phase is a time that is marked by a shade and its name.
type Phase struct {
	Name        string
	From, Until time.Duration
}

const timelineHeight = 200 * vg.Length(1)

var (
	layerColours = []color.Color{admittedColour, color.RGBA{0xf2, 0xa9, 0x3b, 0xff}} // blue, and a lighter amber
	phaseColour  = color.Gray{0xee}
	rateColour   = textColour
)

// DrawTimeline draws a Timeline.
func DrawTimeline(w io.Writer, format Format, t Timeline) error {
	height := headHeight + timelineHeight + 2*margin
	return drawPicture(w, format, height, func(c draw.Canvas) {
		entries := make([]entry, 0, len(t.Layers)+1)
		for i, l := range t.Layers {
			entries = append(entries, entry{layerColours[i], l.Name})
		}
		drawHead(c, t.Title, append(entries, entry{rateColour, "the quota's rate"}))
		c = draw.Crop(c, 0, 0, 0, -headHeight)
		p := t.plot()
		p.Draw(c)
		t.drawNames(p.DataCanvas(c), p)
	})
}

// plot makes the panel: phases behind the layers, and the rate in front of them.
func (t Timeline) plot() *plot.Plot {
	b := bins{width: t.Bin, count: len(t.Layers[0].Counts)}
	perSecond := make([]float64, b.count) // of all layers up to the one that is drawn
	var areas []area
	for i, l := range t.Layers {
		for n, count := range l.Counts {
			perSecond[n] += float64(count) / t.Bin.Seconds()
		}
		areas = append(areas, area{b, slices.Clone(perSecond), layerColours[i]})
	}
	p := plot.New()
	p.Title.Text = " " // keeps the place of the phases' names
	p.Title.TextStyle = textStyle(panelSize)
	p.Title.Padding = titleGap
	scale(&p.X, 0, b.start(b.count), timeTicks(b))
	scale(&p.Y, 0, 1.1*max(slices.Max(perSecond), t.Rate), unitTicks)
	p.X.Label.Text = "time (seconds)"
	p.Y.Label.Text = "admitted / s"
	p.Add(shades(t.Phases), grid())
	for _, a := range slices.Backward(areas) {
		p.Add(a)
	}
	p.Add(level(t.Rate))
	return p
}

// drawNames writes the names of the phases above them.
func (t Timeline) drawNames(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, phase := range t.Phases {
		c.FillText(textStyle(smallSize), vg.Point{X: x(phase.From.Seconds()), Y: c.Max.Y + titleGap}, phase.Name)
	}
}

// shades are drawn behind phases.
type shades []Phase

// Plot draws the shades.
func (s shades) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, phase := range s {
		from, until := x(phase.From.Seconds()), x(phase.Until.Seconds())
		c.FillPolygon(phaseColour, []vg.Point{
			{X: from, Y: c.Min.Y}, {X: until, Y: c.Min.Y}, {X: until, Y: c.Max.Y}, {X: from, Y: c.Max.Y},
		})
	}
}

// level is a line across the panel.
type level float64

// Plot draws the line.
func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	at := y(float64(l))
	c.StrokeLine2(draw.LineStyle{Color: rateColour, Width: 1, Dashes: []vg.Length{4, 3}}, c.Min.X, at, c.Max.X, at)
}
