package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// area is a bar for each bin, drawn as one outline: bars of their own would leave fine lines between them.
type area struct {
	bins
	units  []float64 // of each bin
	colour color.Color
}

// Plot draws the area.
func (a area) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	outline := []vg.Point{{X: x(a.start(0)), Y: y(0)}}
	for i, units := range a.units {
		outline = append(outline,
			vg.Point{X: x(a.start(i)), Y: y(units)},
			vg.Point{X: x(a.start(i + 1)), Y: y(units)},
		)
	}
	outline = append(outline, vg.Point{X: x(a.start(a.count)), Y: y(0)})
	c.FillPolygon(a.colour, outline)
}
