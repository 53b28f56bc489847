// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// materials returns the bill of materials of a file of the release that contains binaries, or is one: the modules that the linker recorded in
// them, Go's standard library, and the software in the web page.
func (r *release) materials(p platform, name string, content []byte, binaries ...[]byte) ([]byte, error) {
	var components []cyclonedx.Component
	add := func(c cyclonedx.Component) {
		if !slices.ContainsFunc(components, func(known cyclonedx.Component) bool { return known.BOMRef == c.BOMRef }) {
			components = append(components, c)
		}
	}
	for _, binary := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(binary))
		if err != nil {
			return nil, fmt.Errorf("read the build information: %w", err)
		}
		add(library("golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go")))
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Version == "" {
				continue // podfit's own modules, which are in folders
			}
			c := library("golang", m.Path, m.Version)
			c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: m.Sum}}
			add(c)
		}
	}
	assets, err := filepath.Glob(filepath.Join(r.root, "internal", "edge", "web", "assets", "*-*"))
	if err != nil {
		return nil, err
	}
	for _, path := range assets {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			name, version, _ := strings.Cut(filepath.Base(path), "-")
			add(library("npm", name, version))
		}
	}
	sum := sha256.Sum256(content)
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serial(sum)
	main := cyclonedx.Component{
		BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: r.version,
		PackageURL: "pkg:golang/podfit.dev/podfit@v" + r.version,
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Properties: &[]cyclonedx.Property{{Name: "platform", Value: p.String()}},
	}
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.created.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

func library(kind, name, version string) cyclonedx.Component {
	url := "pkg:" + kind + "/" + name + "@" + version
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url}
}

// serial returns a UUID (version 8 of RFC 9562) that is made of the checksum of the file, so that it is the same in each build.
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
