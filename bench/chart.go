package main

import (
	"bytes"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The sizes of a chart: one panel for each work, side by side.
const (
	panelWidth  = 5 * vg.Inch
	chartHeight = 3.6 * vg.Inch
	chartMargin = 10 * vg.Length(1)
)

// lineColours differ in lightness too, so that nobody needs to tell hues apart.
var lineColours = []color.RGBA{
	{0x00, 0x3f, 0x72, 0xff}, {0x2b, 0x83, 0xba, 0xff}, {0x8c, 0x2d, 0x04, 0xff}, {0xe6, 0x8a, 0x2e, 0xff}, {0x77, 0x77, 0x77, 0xff},
}

// drawChart draws a figure of contests against the number of callers, as SVG.
func drawChart(label string, contests []throughput, figure func(*throughput) [][]float64) ([]byte, error) {
	width := panelWidth * vg.Length(len(contests))
	picture := vgsvg.New(width, chartHeight)
	canvas := draw.NewCanvas(picture, width, chartHeight)
	for i := range contests {
		panel, err := newPanel(label, &contests[i], figure(&contests[i]))
		if err != nil {
			return nil, err
		}
		left := panelWidth * vg.Length(i)
		panel.Draw(draw.Crop(canvas, left+chartMargin, left+panelWidth-width-chartMargin, chartMargin, -chartMargin))
	}
	var file bytes.Buffer
	if _, err := picture.WriteTo(&file); err != nil {
		return nil, err
	}
	// An SVG names its fonts, and not everyone has these.
	data := bytes.ReplaceAll(file.Bytes(), []byte("font-family:Liberation Serif;"), []byte("font-family:Arial,Helvetica,sans-serif;"))
	return data, nil
}

// newPanel draws a line for each peer. Both axes are logarithmic.
func newPanel(label string, t *throughput, figure [][]float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = t.work.title, "callers", label
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.X.Tick.Marker = plot.ConstantTicks(callerTicks(t.callers))
	p.Legend.Left = label != perSecond // where no line is
	p.Legend.TextStyle.Font.Size = 8
	p.Add(plotter.NewGrid())
	for i, peer := range t.peers {
		var points plotter.XYs
		for column, y := range figure[i] {
			if !math.IsNaN(y) && y > 0 {
				points = append(points, plotter.XY{X: float64(t.callers[column]), Y: y})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, marks.Color = lineColours[i%len(lineColours)], lineColours[i%len(lineColours)]
		line.Width, marks.Radius, marks.Shape = 1.5, 2.2, draw.CircleGlyph{}
		p.Add(line, marks)
		p.Legend.Add(peer.name, line, marks)
	}
	return p, nil
}

// perSecond is the label of decisions a second.
const perSecond = "decisions a second"

func callerTicks(callers []int) (ticks []plot.Tick) {
	for _, n := range slices.Sorted(slices.Values(callers)) {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: strconv.Itoa(n)})
	}
	return ticks
}
