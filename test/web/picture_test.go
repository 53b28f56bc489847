// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// picture writes a picture of the page to the folder in SCREENSHOTS.
func picture(t *testing.T, p *tab, name string) {
	t.Helper()
	if folder := os.Getenv("SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), screenshot(t, p), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// screenshot returns the whole page as a PNG file with at most 256 colors, which is a third of the size of the browser's.
func screenshot(t *testing.T, p *tab) []byte {
	t.Helper()
	var b []byte
	p.do(t, chromedp.FullScreenshot(&b, 100))
	full, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	indexed := image.NewPaletted(full.Bounds(), paletteOf(full))
	draw.Draw(indexed, indexed.Rect, full, full.Bounds().Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, indexed); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// paletteOf returns the most frequent colors of a picture. A page has few; all others are at the edges of letters.
func paletteOf(full image.Image) color.Palette {
	count := map[color.RGBA]int{}
	area := full.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	colors := make([]color.RGBA, 0, len(count))
	for c := range count {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	// The most frequent color of each similar group comes first, so that small parts such as tags keep their color.
	similar := map[color.RGBA]bool{}
	var first, rest color.Palette
	for _, c := range colors {
		group := color.RGBA{c.R &^ 31, c.G &^ 31, c.B &^ 31, 0}
		if similar[group] {
			rest = append(rest, c)
			continue
		}
		similar[group] = true
		first = append(first, c)
	}
	all := slices.Concat(first, rest)
	return all[:min(len(all), 256)]
}

// maxPicture bounds the size of a picture in the documentation, in bytes.
const maxPicture = 160 << 10

// TestPictures_ofTheDocumentation_areOfEachWidthAndSmall checks the pictures in docs/pictures. With the address of the page of a demo that
// keeps running in PAGE, and that folder in SCREENSHOTS, it makes them again: they show a cluster, and no invented data.
func TestPictures_ofTheDocumentation_areOfEachWidthAndSmall(t *testing.T) {
	for name, path := range map[string]string{"overview": "/", "workload": "/workloads/shop/Deployment/worker"} {
		for suffix, look := range map[string]struct {
			dark  bool
			width int64
		}{"": {false, 1280}, "-dark": {true, 1280}, "-narrow": {false, 400}, "-narrow-dark": {true, 400}} {
			if address := os.Getenv("PAGE"); address != "" {
				p := open(t, look.dark, look.width)
				p.do(t, chromedp.Navigate(strings.TrimSuffix(address, "/")+path))
				evaluate[any](t, p, settled)
				picture(t, p, name+suffix)
			}
			file := "../../docs/pictures/" + name + suffix + ".png"
			stored, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
				continue
			}
			if got := headerOf(t, stored); got.Width != int(look.width) || len(stored) > maxPicture {
				t.Errorf("%s has %d bytes and is %d pixels wide, want at most %d and %d", file, len(stored), got.Width, maxPicture, look.width)
			}
		}
	}
}

func headerOf(t *testing.T, picture []byte) image.Config {
	t.Helper()
	c, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
