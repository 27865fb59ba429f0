package chart

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours that differ in lightness most of all, so that nobody needs to tell hues apart.
var (
	arrivedColour  = color.Gray{0xc8}
	admittedColour = color.RGBA{0x00, 0x5a, 0x9c, 0xff} // blue
	textColour     = color.Gray{0x22}
	gridColour     = color.Gray{0xea}
)

// The sizes of text.
const (
	headSize  = 14 * vg.Length(1)
	panelSize = 10.5 * vg.Length(1)
	smallSize = 8.5 * vg.Length(1)
)

func grid() *plotter.Grid {
	line := draw.LineStyle{Color: gridColour, Width: 0.5}
	return &plotter.Grid{Vertical: line, Horizontal: line}
}

func textStyle(size vg.Length) text.Style {
	return text.Style{
		Color:   textColour,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: plot.DefaultTextHandler,
	}
}

func boldStyle(size vg.Length) text.Style {
	style := textStyle(size)
	style.Font.Weight = xfont.WeightBold
	return style
}
