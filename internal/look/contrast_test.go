// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance returns the relative luminance of a colour as #rrggbb or #rgb, as WCAG 2 defines it.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	hex := strings.TrimPrefix(colour, "#")
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	v, err := strconv.ParseUint(hex, 16, 24)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(of uint64) float64 {
		c := float64(of&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(v>>16) + 0.7152*linear(v>>8) + 0.0722*linear(v)
}

// contrast returns the contrast of two colours, from 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Each line and mark of a chart has a contrast of at least 3:1 to its card, in light and dark, both in images and where the script draws.
func TestStyle_linesOfCharts_haveAContrastOfThree(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	light, dark, found := strings.Cut(read("look.css"), "prefers-color-scheme: dark")
	if !found {
		t.Fatal("look.css has no dark colours")
	}
	// The lines of charts by their source: what has a stroke, and what the script draws.
	used := map[string]bool{}
	for file, pattern := range map[string]string{
		"chart/chart.css":            `(?:stroke|--c): var\((--\w+)\)`,
		"../edge/web/assets/app.css": `stroke: var\((--\w+)\)`,
		"../edge/web/assets/app.js":  `(?:line|steps)\([^;]*colour\("(--\w+)"\)|strokeStyle = colour\("(--\w+)"\)|"(--cpu)" : "(--mem)"`,
	} {
		lines := regexp.MustCompile(pattern).FindAllStringSubmatch(read(file), -1)
		for _, m := range lines {
			for _, name := range m[1:] {
				used[name] = true
			}
		}
		if len(lines) < 3 {
			t.Errorf("%s has %d lines", file, len(lines))
		}
	}
	if !strings.Contains(read("chart/chart.css"), ".bucket { stroke: var(--c); }") { // its filling is too faint
		t.Error("the bars of a histogram have no outline")
	}
	delete(used, "")
	delete(used, "--c") // stands for one of the others
	for _, name := range []string{"--cpu", "--mem", "--ink", "--bad", "--faint"} {
		if !used[name] {
			t.Errorf("no line has the colour %s", name)
		}
	}
	for name := range used {
		if name == "--line" {
			continue // of the grid, which has no meaning
		}
		for scheme, style := range map[string]string{"light": light, "dark": dark} {
			colour := func(name string) string {
				m := regexp.MustCompile(regexp.QuoteMeta(name) + `: (#[0-9a-f]+);`).FindStringSubmatch(style)
				if m == nil {
					t.Fatalf("%s has no %s", scheme, name)
				}
				return m[1]
			}
			if got := contrast(t, colour(name), colour("--card")); got < 3 {
				t.Errorf("%s in %s has a contrast of %.2f to the card, want at least 3", name, scheme, got)
			}
		}
	}
}

func TestContrast_knownColours_isThatOfTheStandard(t *testing.T) {
	for pair, want := range map[[2]string]float64{{"#000", "#ffffff"}: 21, {"#777777", "#fff"}: 4.48, {"#fff", "#fff"}: 1} {
		if got := contrast(t, pair[0], pair[1]); math.Abs(got-want) > 0.01 {
			t.Errorf("%v: %.2f, want %v", pair, got, want)
		}
	}
}
