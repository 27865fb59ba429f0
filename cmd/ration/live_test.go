package main

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/embedded"
	"github.com/go-ration/ration/cmd/ration/internal/fleet"
)

// newTestPicture makes the picture of a fleet that does not run.
func newTestPicture(t *testing.T, instances int, endRun func()) *picture {
	t.Helper()
	redisServer := embedded.New()
	t.Cleanup(redisServer.Close)
	f, err := fleet.New(fleet.Config{
		Instances: instances,
		Plan:      ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 20},
		Load:      3,
		Duration:  5 * time.Second,
		Timeout:   time.Second,
		NewRedis:  func() redis.UniversalClient { return redisServer.NewClient() },
	})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	w := watch{fleet: f, duration: 5 * time.Second, title: "a fleet in " + strings.Repeat("a Redis Cluster of a long name, ", 4)}
	return newPicture(w, endRun)
}

func TestPictureFits(t *testing.T) {
	t.Parallel()
	for _, instances := range []int{1, 8, 300} {
		p := newTestPicture(t, instances, func() {})
		for n := range p.tallies {
			p.tallies[n] = fleet.Tally{Offered: 99_999, Admitted: 50_000, Denied: 45_000, Errors: 4_999}
		}
		p.perSecond = []int64{120, 0, 100, 99, 12_000, 50}
		for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 200, Height: 60}, {Width: 20, Height: 8}} {
			p.Update(size)
			lines := strings.Split(p.View().Content, "\n")
			for _, line := range lines {
				require.LessOrEqual(t, ansi.StringWidth(line), size.Width, line)
			}
			if size.Height >= 24 {
				require.Less(t, len(lines), size.Height)
			}
		}
	}
}

func TestPictureSeconds(t *testing.T) {
	t.Parallel()
	p := newTestPicture(t, 2, func() {})
	p.Update(frameMsg(p.started.Add(900 * time.Millisecond)))
	require.Empty(t, p.perSecond)
	for _, second := range []time.Duration{1, 2, 3, 4} {
		p.Update(frameMsg(p.started.Add(second * time.Second)))
		require.Len(t, p.perSecond, int(second))
	}
	p.Update(frameMsg(p.started.Add(5 * time.Second)))
	require.Len(t, p.perSecond, 4, "the last second is closed at the end")
	_, command := p.Update(endedMsg{})
	require.Len(t, p.perSecond, 5)
	require.Equal(t, tea.QuitMsg{}, command())
	require.Contains(t, p.View().Content, "is the quota's rate, 100/s\n  1s     0 ")
}

func TestPictureEndsEarly(t *testing.T) {
	t.Parallel()
	ended := 0
	p := newTestPicture(t, 1, func() { ended++ })
	p.Update(tea.KeyPressMsg{Code: 'x', Text: "x"})
	require.Zero(t, ended)
	p.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	p.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	require.Equal(t, 2, ended)
}
