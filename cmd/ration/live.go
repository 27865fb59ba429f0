package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/go-ration/ration/cmd/ration/internal/fleet"
)

// live redraws a picture of the fleet in place, and leaves the last one.
func (w watch) live(ctx context.Context) (fleet.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := []tea.ProgramOption{tea.WithOutput(w.out), tea.WithoutSignalHandler(), tea.WithInput(nil)}
	if isTerminal(w.in) {
		options[len(options)-1] = tea.WithInput(w.in)
	}
	program := tea.NewProgram(newPicture(w, cancel), options...)
	ended := make(chan struct{})
	var result fleet.Result
	var runErr error
	go func() {
		defer close(ended)
		result, runErr = w.fleet.Run(ctx)
		program.Send(endedMsg{})
	}()
	_, err := program.Run()
	cancel()
	<-ended
	if err != nil {
		return result, fmt.Errorf("show the fleet: %w", err)
	}
	return result, runErr
}

// picture is the state of the live view.
type picture struct {
	watch
	endRun  func()
	started time.Time

	width, height int // of the terminal

	tallies []fleet.Tally
	// perSecond are the admissions of the whole fleet in each second that is over.
	perSecond []int64
	ended     bool
	noted     int64 // their sum
}

type (
	frameMsg time.Time
	endedMsg struct{}
)

const frame = 100 * time.Millisecond

func newPicture(w watch, endRun func()) *picture {
	return &picture{
		watch:   w,
		endRun:  endRun,
		started: time.Now(),
		width:   80,
		height:  24,
		tallies: w.fleet.Now(),
	}
}

func (p *picture) Init() tea.Cmd { return nextFrame() }

func nextFrame() tea.Cmd {
	return tea.Tick(frame, func(t time.Time) tea.Msg { return frameMsg(t) })
}

func (p *picture) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if key := msg.String(); key == "ctrl+c" || key == "q" {
			p.endRun()
		}
	case frameMsg:
		p.look(time.Time(msg))
		return p, nextFrame()
	case endedMsg:
		p.look(time.Now())
		p.closeSecond()
		p.ended = true
		return p, tea.Quit
	}
	return p, nil
}

// look takes the fleet's counts, and closes a second that is over.
func (p *picture) look(now time.Time) {
	p.tallies = p.fleet.Now()
	second := len(p.perSecond) + 1
	if !p.isLast(second) && now.Sub(p.started) >= time.Duration(second)*time.Second {
		p.closeSecond()
	}
}

// closeSecond notes what was admitted since the last second was closed.
func (p *picture) closeSecond() {
	admitted := total(p.tallies).Admitted
	p.perSecond = append(p.perSecond, admitted-p.noted)
	p.noted = admitted
}

func (p *picture) View() tea.View {
	lines := append(strings.Split(p.title, "\n"), "")
	lines = append(lines, p.instances()...)
	lines = append(lines, "", fmt.Sprintf("admitted by the fleet, per second; │ is the quota's rate, %s/s", number(p.fleet.Rate())))
	lines = append(lines, p.seconds()...)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, p.width, "…")
	}
	return tea.NewView(strings.Join(lines, "\n") + "\n") // the last line is cleared when the program ends
}

var (
	admittedStyle = lipgloss.NewStyle().Foreground(lipgloss.Green)
	deniedStyle   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// shownSeconds is how many seconds have a bar.
const shownSeconds = 5

// instances draws a bar for each instance, as long as what it has been offered.
func (p *picture) instances() []string {
	const others = 7 + shownSeconds // lines of the picture, and one of the terminal's
	shown := p.tallies
	if most := max(p.height-others, 1); len(shown) > most {
		shown = shown[:most-1]
	}
	planned := float64(p.fleet.Offers()) / float64(len(p.tallies))
	var lines []string
	for n, t := range shown {
		text := fmt.Sprintf("%6d admitted %6d denied", t.Admitted, t.Denied)
		if t.Errors > 0 {
			text += fmt.Sprintf(" %4d errors", t.Errors)
		}
		room := max(p.width-len(text)-6, 5)
		upTo := func(n int64) int { return min(int(float64(room)*float64(n)/planned), room) }
		admitted, both := upTo(t.Admitted), upTo(t.Admitted+t.Denied)
		lines = append(lines, fmt.Sprintf("%4d ", n+1)+
			bar(admittedStyle, "█", admitted)+bar(deniedStyle, "░", both-admitted)+
			strings.Repeat(" ", room-both)+text)
	}
	if more := len(p.tallies) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("     … and %d more", more))
	}
	return lines
}

// seconds draws a bar for each of the last seconds, with a mark where the quota's rate is.
func (p *picture) seconds() []string {
	rate := p.fleet.Rate()
	most := 1.5 * rate
	for _, n := range p.perSecond {
		most = max(most, float64(n))
	}
	room := float64(max(p.width-12, 5))
	mark := int(room * rate / most)
	lines := make([]string, shownSeconds) // all of them, so that the picture does not jump
	if p.ended {
		lines = lines[:min(len(p.perSecond), shownSeconds)]
	}
	first := max(len(p.perSecond)-shownSeconds, 0)
	for i, n := range p.perSecond[first:] {
		length := int(room * float64(n) / most)
		line := strings.Repeat("█", min(length, mark)) + strings.Repeat(" ", max(mark-length, 0)) + "│" +
			strings.Repeat("█", max(length-mark-1, 0))
		lines[i] = fmt.Sprintf("%3ds %5d ", first+i+1, n) + admittedStyle.Render(line)
	}
	return lines
}

func bar(style lipgloss.Style, glyph string, length int) string {
	if length <= 0 {
		return ""
	}
	return style.Render(strings.Repeat(glyph, length))
}

// number is a number of units a second with no more digits than it needs.
func number(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}
