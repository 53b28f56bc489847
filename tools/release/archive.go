// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file of an archive. It belongs to root.
type file struct {
	name    string
	mode    int64
	content []byte
	link    string // target, for a symbolic link
}

// below returns files with their names below a folder.
func below(folder string, files []file) []file {
	out := slices.Clone(files)
	for i := range out {
		out[i].name = folder + "/" + out[i].name
	}
	return out
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// tarball returns a compressed tar archive. Its gzip header has no name and no time.
func tarball(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(packed)
	for _, f := range sorted(files) {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zipped returns a zip archive.
func zipped(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	for _, f := range sorted(files) {
		if f.link != "" {
			return nil, fmt.Errorf("add %s: a zip archive has no links", f.name)
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(fs.FileMode(f.mode))
		entry, err := w.CreateHeader(h)
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", f.name, err)
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// write writes a file of the release, and keeps its checksum.
func (r *release) write(name string, content []byte) error {
	path := filepath.Join(r.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	r.sums[name] = hex.EncodeToString(sum[:])
	return os.WriteFile(path, content, 0o644)
}

// writePlatform writes the archives and the bill of materials of a platform. Krew refuses archives with links, so its archive contains
// the plugin alone.
func (r *release) writePlatform(p platform) error {
	binary, err := os.ReadFile(r.binary(p))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("podfit_%s_%s_%s", r.version, p.os, p.arch)
	all := append(slices.Clone(r.licenses), file{name: p.exe("podfit"), mode: 0o755, content: binary})
	if p.os != "windows" {
		all = append(all, r.manual...)
		for _, link := range []string{"kubectl-podfit", "kubectl_complete-podfit"} {
			all = append(all, file{name: link, mode: 0o777, link: "podfit"})
		}
	}
	plugin := append(slices.Clone(r.licenses), file{name: p.exe("kubectl-podfit"), mode: 0o755, content: binary})
	for archive, files := range map[string][]file{p.archive(name): below(name, all), p.archive("kubectl-" + name): plugin} {
		pack := tarball
		if p.os == "windows" {
			pack = zipped
		}
		content, err := pack(files, r.created)
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		if err := r.write(archive, content); err != nil {
			return err
		}
	}
	bom, err := r.materials(p, "podfit", binary, binary)
	if err != nil {
		return err
	}
	return r.write(name+".cdx.json", bom)
}

// archive returns the file name of an archive.
func (p platform) archive(name string) string {
	if p.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// writeSums writes the checksums of all files of the release, for sha256sum -c.
func (r *release) writeSums() error {
	err := filepath.WalkDir(filepath.Join(r.out, "images"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		r.sums[filepath.ToSlash(name)] = hex.EncodeToString(sum[:])
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		fmt.Fprintf(&out, "%s  %s\n", r.sums[name], name)
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(out.String()), 0o644)
}
