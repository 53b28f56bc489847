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

// readmePicture is the picture of the page in README.md.
const readmePicture = "../../docs/pictures/overview.png"

// maxPicture bounds the size of the picture in README.md, in bytes.
const maxPicture = 80 << 10

// TestReadme_picture_isOfThisPageAndSmall checks the picture in README.md, and makes it again if SCREENSHOTS is its folder.
func TestReadme_picture_isOfThisPageAndSmall(t *testing.T) {
	p := open(t, false, 1280)
	p.do(t, chromedp.Navigate(serve(t, small())+"/"))
	evaluate[any](t, p, settled)
	picture(t, p, "overview")
	current := screenshot(t, p)
	stored, err := os.ReadFile(readmePicture)
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) > maxPicture {
		t.Errorf("%s has %d bytes, want at most %d", readmePicture, len(stored), maxPicture)
	}
	got, want := headerOf(t, stored), headerOf(t, current)
	// Fonts differ between machines, so the height may differ by a few lines.
	if difference := got.Height - want.Height; got.Width != want.Width || max(difference, -difference) > want.Height/10 {
		t.Errorf("%s is %d × %d pixels, but the page is %d × %d; run SCREENSHOTS=../../docs/pictures go -C test/web test -run TestReadme", readmePicture, got.Width, got.Height, want.Width, want.Height)
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
