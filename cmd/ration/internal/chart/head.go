package chart

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// entry says what a colour means.
type entry struct {
	colour color.Color
	name   string
}

// drawHead writes the title of a picture, and below it what the colours mean.
func drawHead(c draw.Canvas, title string, entries []entry) {
	at := vg.Point{X: c.Min.X, Y: c.Max.Y - headSize}
	bold := boldStyle(headSize)
	c.FillText(bold, at, shorten(title, func(s string) bool { return bold.Width(s) <= c.Size().X }))
	at.Y -= 1.5 * headSize
	const side = panelSize // of a square in a colour
	style := textStyle(panelSize)
	for _, entry := range entries {
		c.FillPolygon(entry.colour, []vg.Point{
			at, {X: at.X + side, Y: at.Y}, {X: at.X + side, Y: at.Y + side}, {X: at.X, Y: at.Y + side},
		})
		at.X += 1.5 * side
		c.FillText(style, at, entry.name)
		at.X += style.Width(entry.name) + 2*side
	}
}

// shorten leaves out as much of the beginning of a text as it takes to fit: its end says more where it begins with a path.
func shorten(text string, fits func(string) bool) string {
	whole := []rune(text)
	for n := 1; !fits(text) && n < len(whole); n++ {
		text = "…" + string(whole[n:])
	}
	return text
}
