// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/buildinfo"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// read returns the images of a layout by name and platform. It checks all digests and sizes.
func read(t *testing.T, dir string) map[string]map[string]v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]v1.Image{}
	for _, d := range list.Manifests {
		name, _, _ := strings.Cut(d.Annotations["org.opencontainers.image.ref.name"], ":")
		out[name] = map[string]v1.Image{}
		one, err := index.ImageIndex(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		platforms, err := one.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range platforms.Manifests {
			if out[name][p.Platform.String()], err = one.Image(p.Digest); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func platforms(t *testing.T, names string) (out []v1.Platform) {
	t.Helper()
	for name := range strings.SplitSeq(names, ",") {
		p, err := v1.ParsePlatform(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, *p)
	}
	return out
}

func TestImages_eachPlatform_hasFourEntrypointsOverOneLayer(t *testing.T) {
	out := filepath.Join(t.TempDir(), "images")
	r := request{out: out, version: "1.2.3", created: time.Unix(1700000000, 0).UTC(), platforms: platforms(t, allPlatforms)}
	compile := func(p v1.Platform) ([]byte, error) { return []byte("binary for " + p.String()), nil }
	for range 2 { // the second one replaces the first one
		if err := write(r, map[string][]byte{"LICENSE": []byte("license")}, compile); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, out)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(maps.Keys(images))) {
		t.Errorf("images %v", names)
	}
	layers := map[string]v1.Hash{}
	for name, byPlatform := range got {
		if len(byPlatform) != 5 {
			t.Errorf("%s: platforms %v", name, slices.Sorted(maps.Keys(byPlatform)))
		}
		for platform, image := range byPlatform {
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if p := (v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}); p.String() != platform {
				t.Errorf("%s: the configuration is for %s, the index says %s", name, p.String(), platform)
			}
			c := config.Config
			if c.User != "65534:65534" || !reflect.DeepEqual(c.Entrypoint, images[name]) || len(c.Cmd) > 0 || len(c.ExposedPorts) > 0 || len(c.Volumes) > 0 {
				t.Errorf("%s: %+v", name, c)
			}
			if !config.Created.Equal(r.created) || c.Labels["org.opencontainers.image.version"] != "1.2.3" {
				t.Errorf("%s: created %v, labels %v", name, config.Created, c.Labels)
			}
			all, err := image.Layers()
			if err != nil || len(all) != 1 {
				t.Fatalf("%s: %d layers, %v", name, len(all), err)
			}
			digest, err := all[0].Digest()
			if err != nil {
				t.Fatal(err)
			}
			if known, ok := layers[platform]; ok && known != digest {
				t.Errorf("%s: layer %v, other images have %v", name, digest, known)
			}
			layers[platform] = digest
			if text := unpack(t, all[0])["podfit"].content; string(text) != "binary for "+platform {
				t.Errorf("%s, %s: contains %q", name, platform, text)
			}
		}
	}
}

func TestRun_wrongArguments_areNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"--out is required":     {"--platforms=linux/amd64"},
		"linux/ARCHITECTURE":    {"--out=x", "--platforms=windows/amd64"},
		"too many slashes":      {"--out=x", "--platforms=linux/arm/v7/x"},
		"collect the licenses":  {"--out=x", "--root=/nonexistent"},
		"flag provided but not": {"--push"},
	} {
		err := run(t.Context(), args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// An entry of the layer.
type entry struct {
	header  *tar.Header
	content []byte
}

func unpack(t *testing.T, l v1.Layer) map[string]entry {
	t.Helper()
	in, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := map[string]entry{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = entry{h, content}
	}
}

// checkout copies the files of the repository to another folder, as a checkout there would.
func checkout(t *testing.T, to string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skipf("no git checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue // deleted, or a link to a folder
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), content, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImages_builtInTwoFolders_areIdenticalAndRun(t *testing.T) {
	platform := "linux/" + runtime.GOARCH
	if runtime.GOARCH == "arm" {
		platform += "/v7"
	}
	dir := t.TempDir()
	var layouts []string
	for _, name := range []string{"one", "a folder with another name"} {
		root, out := filepath.Join(dir, name, "podfit"), filepath.Join(dir, name, "images")
		checkout(t, root)
		args := []string{"--root=" + root, "--out=" + out, "--version=1.2.3", "--epoch=1700000000", "--platforms=" + platform}
		if err := run(t.Context(), args, io.Discard); err != nil {
			t.Fatal(err)
		}
		layouts = append(layouts, out)
	}
	sameFiles(t, layouts[0], layouts[1])
	image := read(t, layouts[0])["podfit"][platform]
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	root := unpack(t, layers[0])
	checkRoot(t, root)
	checkLicenses(t, root)
	checkStarts(t, filepath.Join(dir, "root"), root)
}

// sameFiles compares all files of two folders.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	content := func(dir string) map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			out[strings.TrimPrefix(path, dir)] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one, other := content(a), content(b)
	if len(one) < 8 || !slices.Equal(slices.Sorted(maps.Keys(one)), slices.Sorted(maps.Keys(other))) {
		t.Errorf("files %v and %v", slices.Sorted(maps.Keys(one)), slices.Sorted(maps.Keys(other)))
	}
	for name := range one {
		if one[name] != other[name] {
			t.Errorf("%s differs", name)
		}
	}
}

// checkRoot checks owners, modes and times of the root file system, and the CA certificates.
func checkRoot(t *testing.T, root map[string]entry) {
	t.Helper()
	for name, e := range root {
		h := e.header
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(1700000000, 0)) {
			t.Errorf("%s: owner %d:%d %q, time %v", name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		if mode := h.FileInfo().Mode(); mode&0o022 != 0 && name != "tmp/" || mode&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("%s: mode %v", name, mode)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(root["etc/ssl/certs/ca-certificates.crt"].content) {
		t.Error("no CA certificates")
	}
}

// checkLicenses checks that the licenses of all modules in the binary are in the layer.
func checkLicenses(t *testing.T, root map[string]entry) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(root["podfit"].content))
	if err != nil {
		t.Fatal(err)
	}
	text := string(root["licenses/THIRD-PARTY-LICENSES.txt"].content)
	for _, m := range info.Deps {
		if !strings.Contains(text, m.Path+" "+m.Version) {
			t.Errorf("no license of %s %s", m.Path, m.Version)
		}
	}
	if len(info.Deps) < 20 || !strings.Contains(text, "Mozilla Public License") {
		t.Errorf("%d modules", len(info.Deps))
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		if len(root["licenses/"+name].content) == 0 {
			t.Errorf("no %s", name)
		}
	}
}

// checkStarts starts the entrypoints in the root file system of the layer, as the user of the image.
func checkStarts(t *testing.T, dir string, root map[string]entry) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(root)) {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, root[name].content, root[name].header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
	for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) { // t.TempDir is only for its owner
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, entrypoint := range images {
		cmd := exec.Command(entrypoint[0], append(slices.Clone(entrypoint[1:]), "--help")...)
		cmd.Path, cmd.Dir, cmd.Env = "/podfit", "/", []string{"PATH=/"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if os.Getuid() != 0 { // a user namespace in which the user is root
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Chroot: dir, Cloneflags: syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 65534, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 65534, HostID: os.Getgid(), Size: 1}},
			}
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Logf("neither chroot nor user namespaces are allowed: %s was not started", name)
			return
		}
		if want := "podfit " + strings.Join(entrypoint[1:], " "); err != nil || !strings.Contains(string(out), strings.TrimSpace(want)) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
