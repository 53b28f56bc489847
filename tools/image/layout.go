// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group of the container: nobody.
const user = "65534:65534"

// images are the entrypoints of the images, by name.
var images = map[string][]string{
	"podfit":                   {"/podfit"},
	"vpa-recommender":          {"/podfit", "recommender"},
	"vpa-updater":              {"/podfit", "updater"},
	"vpa-admission-controller": {"/podfit", "admission-controller"},
}

// rootsLicense describes the origin of the CA certificates.
const rootsLicense = `
================================================================================
CA certificates: /etc/ssl/certs/ca-certificates.crt
================================================================================
The list of CA certificates is Mozilla's, from golang.org/x/crypto/x509roots. It is subject to the terms of the Mozilla Public License,
version 2.0: https://mozilla.org/MPL/2.0/. Its source is
https://github.com/mozilla-firefox/firefox/blob/main/security/nss/lib/ckfw/builtins/certdata.txt
`

// A file of the layer. Folders end with a slash.
type file struct {
	name    string
	mode    int64
	content []byte
}

// write writes the images to an OCI layout, which takes the place of the previous one when it is complete.
func write(r request, licenses map[string][]byte, compile func(v1.Platform) ([]byte, error)) error {
	perPlatform := map[string]v1.Layer{}
	for _, p := range r.platforms {
		binary, err := compile(p)
		if err != nil {
			return err
		}
		if perPlatform[p.String()], err = layer(files(binary, licenses), r.created); err != nil {
			return err
		}
	}
	next := r.out + ".new"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(next), 0o755); err != nil {
		return err
	}
	path, err := layout.Write(next, empty.Index)
	if err != nil {
		return fmt.Errorf("create the OCI layout: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, p := range r.platforms {
			image, err := assemble(r, name, p, perPlatform[p.String()])
			if err != nil {
				return err
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}})
		}
		index = mutate.Annotations(index, annotations(r, name)).(v1.ImageIndex)
		ref := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name + ":" + r.version})
		if err := path.AppendIndex(index, ref); err != nil {
			return fmt.Errorf("write image %s: %w", name, err)
		}
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.Rename(next, r.out)
}

// assemble returns the image of one platform.
func assemble(r request, name string, p v1.Platform, l v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(image, mutate.Addendum{
		Layer:   l,
		History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "podfit: make images", Comment: "podfit " + r.version},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	config.Created = v1.Time{Time: r.created}
	config.Config = v1.Config{
		User: user, Entrypoint: images[name], WorkingDir: "/",
		Env:    []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: annotations(r, name),
	}
	return mutate.ConfigFile(image, config)
}

func annotations(r request, name string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       name,
		"org.opencontainers.image.description": "Sets the CPU and memory requests of containers in Kubernetes according to their usage",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
	}
}

// files returns the root file system. The time zones are in the binary.
func files(binary []byte, licenses map[string][]byte) []file {
	out := []file{
		{"podfit", 0o755, binary},
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("nobody:x:65534:\n")},
		{"etc/passwd", 0o644, []byte("nobody:x:65534:65534:nobody:/:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		{"licenses/", 0o755, nil},
		{"tmp/", 0o1777, nil},
	}
	for name, text := range licenses {
		out = append(out, file{"licenses/" + name, 0o644, text})
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out
}

// roots returns the CA certificates that Mozilla trusts for servers, in PEM. Prometheus may have a certificate of a public CA.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil { // a PEM file cannot express the constraint
			continue
		}
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return out.Bytes()
}

// layer returns a compressed layer with files. All belong to root and have the same time.
func layer(files []file, at time.Time) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("write %s to the layer: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("write %s to the layer: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	text := out.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
}
