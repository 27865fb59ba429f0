package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/chart"
	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

// outcomes of as many plans, which admit the first of two arrivals.
func outcomes(plans int) (simulate.Trace, []simulate.Outcome) {
	trace := simulate.Trace{{At: 0, Cost: 3}, {At: time.Second, Cost: 2}}
	some := make([]simulate.Outcome, plans)
	for i := range some {
		some[i] = simulate.Outcome{Plan: "token-bucket 3/s burst 3", Allowed: []bool{true, false}, Admitted: 3, Denied: 2, Peak1s: 3}
	}
	return trace, some
}

func TestSVG(t *testing.T) {
	t.Parallel()
	trace, some := outcomes(chart.MaxPanels)
	var picture bytes.Buffer
	require.NoError(t, chart.Draw(&picture, chart.SVG, "<a> & b: 2 arrivals", trace, some))
	texts := textsOf(t, &picture)
	for text, want := range map[string]int{
		"<a> & b: 2 arrivals": 1,
		"arrived":             1,
		"admitted":            1,
		"token-bucket 3/s burst 3: 3 of 5 admitted, peak 3 in 1 s": chart.MaxPanels,
		"units / 10 ms":  chart.MaxPanels,
		"0.4":            chart.MaxPanels,
		"time (seconds)": 1,
	} {
		require.Equal(t, want, texts[text], "%s in %v", text, texts)
	}
}

// textsOf counts the texts of an SVG.
func textsOf(t *testing.T, picture io.Reader) map[string]int {
	t.Helper()
	texts := make(map[string]int)
	decoder := xml.NewDecoder(picture)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			texts[strings.TrimSpace(string(text))]++
		}
	}
}

func TestPNG(t *testing.T) {
	t.Parallel()
	trace, some := outcomes(1)
	var picture bytes.Buffer
	require.NoError(t, chart.Draw(&picture, chart.PNG, strings.Repeat("a long name ", 100), trace, some))
	got, err := png.Decode(&picture)
	require.NoError(t, err)
	require.Equal(t, 1296, got.Bounds().Dx())
	require.Equal(t, 364, got.Bounds().Dy())
	colours := make(map[color.Color]int)
	for x := range got.Bounds().Dx() {
		colours[color.RGBAModel.Convert(got.At(x, 250))]++ // across the panel
	}
	require.Greater(t, colours[color.RGBA{0xc8, 0xc8, 0xc8, 0xff}], 5, "arrivals")
	require.Greater(t, colours[color.RGBA{0x00, 0x5a, 0x9c, 0xff}], 5, "admissions")
}

// Nothing to admit, and nothing that asks for units, make a picture all the same.
func TestNothingToDraw(t *testing.T) {
	t.Parallel()
	trace := simulate.Trace{{At: time.Hour}}
	require.NoError(t, chart.Draw(io.Discard, chart.PNG, "", trace, []simulate.Outcome{{Allowed: []bool{false}}}))
}

func TestDrawFails(t *testing.T) {
	t.Parallel()
	trace, some := outcomes(1)
	reader, writer := io.Pipe()
	require.NoError(t, reader.Close())
	for _, format := range []chart.Format{chart.SVG, chart.PNG} {
		require.ErrorIs(t, chart.Draw(writer, format, "", trace, some), io.ErrClosedPipe)
	}
}
