// Package chart draws what was let through over time: by plans of a trace of arrivals, in one panel for each plan, and by a fleet in
// an outage.
package chart

import (
	"bytes"
	"io"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

// Format is the format of a picture, as the ending of its file's name.
type Format string

// The formats.
const (
	SVG Format = ".svg"
	PNG Format = ".png"
)

// Valid says whether f is one of the formats.
func (f Format) Valid() bool { return f == SVG || f == PNG }

// MaxPanels is how many plans can be drawn, so that the picture has a size that other programs take.
const MaxPanels = 50

// The sizes of a picture.
const (
	width       = 9 * vg.Inch
	margin      = 16 * vg.Length(1)
	headHeight  = 42 * vg.Length(1)
	panelHeight = 92 * vg.Length(1)
	panelGap    = 6 * vg.Length(1)
	footHeight  = 10 * vg.Length(1) // below the last panel
	dotsPerInch = 144
)

// Draw draws the outcomes of a trace, at least one and at most MaxPanels.
func Draw(w io.Writer, format Format, title string, t simulate.Trace, outcomes []simulate.Outcome) error {
	height := headHeight + vg.Length(len(outcomes))*(panelHeight+panelGap) + footHeight + 2*margin
	return drawPicture(w, format, height, func(c draw.Canvas) {
		drawHead(c, title, []entry{{arrivedColour, "arrived"}, {admittedColour, "admitted"}})
		drawPanels(draw.Crop(c, 0, 0, 0, -headHeight), t, outcomes)
	})
}

// drawPicture makes a picture, margins and all, of what is drawn.
func drawPicture(w io.Writer, format Format, height vg.Length, content func(draw.Canvas)) error {
	var picture vg.CanvasWriterTo
	if format == SVG {
		picture = vgsvg.New(width, height)
	} else {
		picture = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
	}
	content(draw.Crop(draw.NewCanvas(picture, width, height), margin, -margin, margin, -margin))
	var file bytes.Buffer
	if _, err := picture.WriteTo(&file); err != nil {
		return err
	}
	data := file.Bytes()
	if format == SVG {
		// An SVG names its fonts, and not everyone has this one.
		data = bytes.ReplaceAll(data, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	}
	_, err := w.Write(data)
	return err
}

// drawPanels draws a panel for each outcome, one below the other, with one scale for all.
func drawPanels(c draw.Canvas, t simulate.Trace, outcomes []simulate.Outcome) {
	b := newBins(t)
	for i, o := range outcomes {
		p := newPanel(b, t, o)
		c.Min.Y = c.Max.Y - panelHeight
		if i == len(outcomes)-1 {
			p.X.Label.Text = "time (seconds)"
			c.Min.Y -= footHeight
		}
		p.Draw(c)
		drawPanelTitle(p, c, o)
		c.Max.Y = c.Min.Y - panelGap
	}
}
