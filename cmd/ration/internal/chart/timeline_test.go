package chart_test

import (
	"bytes"
	"image/color"
	"image/png"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/chart"
)

// outage is a timeline of 4 s, in the middle of which Redis was stopped for 2.
var outage = chart.Timeline{
	Title: "token-bucket 10/s burst 5, shared by 2 instances",
	Bin:   time.Second,
	Layers: []chart.Layer{
		{Name: "admitted by Redis", Counts: []int64{10, 0, 0, 10}},
		{Name: "admitted by policy local", Counts: []int64{0, 10, 10, 5}},
	},
	Rate:   10,
	Phases: []chart.Phase{{Name: "Redis stopped", From: time.Second, Until: 3 * time.Second}},
}

func TestTimelineSVG(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	require.NoError(t, chart.DrawTimeline(&picture, chart.SVG, outage))
	texts := textsOf(t, &picture)
	for _, text := range []string{
		outage.Title, "admitted by Redis", "admitted by policy local", "the quota's rate", "Redis stopped", "admitted / s", "time (seconds)",
	} {
		require.Equal(t, 1, texts[text], "%s in %v", text, texts)
	}
}

func TestTimelinePNG(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	require.NoError(t, chart.DrawTimeline(&picture, chart.PNG, outage))
	got, err := png.Decode(&picture)
	require.NoError(t, err)
	require.Equal(t, 1296, got.Bounds().Dx())
	colours := make(map[color.Color]int)
	for x := range got.Bounds().Dx() {
		colours[color.RGBAModel.Convert(got.At(x, 400))]++ // across the panel
	}
	require.Greater(t, colours[color.RGBA{0x00, 0x5a, 0x9c, 0xff}], 100, "by Redis")
	require.Greater(t, colours[color.RGBA{0xf2, 0xa9, 0x3b, 0xff}], 100, "by the policy")
}

// Nothing admitted makes a picture all the same.
func TestTimelineOfNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, chart.DrawTimeline(io.Discard, chart.PNG, chart.Timeline{
		Bin: time.Second, Layers: []chart.Layer{{Counts: []int64{0}}}, Rate: 0.001,
	}))
}
