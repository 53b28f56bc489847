// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"sigs.k8s.io/yaml"
)

const epoch = 1700000000

// tree reads all files of a folder by their names.
func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unpack reads an archive, and checks order, owners, modes and times.
func unpack(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if packed.Name != "" || !packed.ModTime.IsZero() {
		t.Errorf("gzip header: name %q, time %v", packed.Name, packed.ModTime)
	}
	out := map[string][]byte{}
	last := ""
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name <= last || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(epoch, 0)) {
			t.Errorf("%s: after %s, owner %d:%d %q, time %v", h.Name, last, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		if h.Typeflag == tar.TypeReg && h.Mode != 0o644 && h.Mode != 0o755 {
			t.Errorf("%s: mode %o", h.Name, h.Mode)
		}
		last = h.Name
		if out[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeSymlink {
			out[h.Name] = []byte("-> " + h.Linkname)
		}
	}
}

// checkout copies the files of the repository to another folder, as a checkout there would.
func checkout(t *testing.T, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", `set -euo pipefail
		cd ../.. && comm -z -23 <(git ls-files -z --cached --others --exclude-standard | sort -zu) <(git ls-files -z --deleted | sort -zu) |
		xargs -0 cp -P --parents -t "$1"`, "checkout", to)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("no git checkout: %v\n%s", err, out)
	}
}

func TestRelease_builtInTwoFolders_isIdenticalAndComplete(t *testing.T) {
	dir := t.TempDir()
	var built []map[string][]byte
	for _, name := range []string{"one", "a folder with another name"} {
		root, out := filepath.Join(dir, name, "podfit"), filepath.Join(dir, name, "dist")
		checkout(t, root)
		var progress bytes.Buffer
		err := run(t.Context(), []string{"--root=" + root, "--out=" + out, "--version=v1.2.3", "--epoch=1700000000", "--platforms=linux/" + runtime.GOARCH}, &progress)
		if err != nil {
			t.Fatalf("%v\n%s", err, progress.String())
		}
		if n := strings.Count(progress.String(), "\n      done in"); n != 12 {
			t.Errorf("%d steps\n%s", n, progress.String())
		}
		built = append(built, tree(t, out))
	}
	names := slices.Sorted(maps.Keys(built[0]))
	if !slices.Equal(names, slices.Sorted(maps.Keys(built[1]))) {
		t.Errorf("files %v and %v", names, slices.Sorted(maps.Keys(built[1])))
	}
	for _, name := range names {
		if !bytes.Equal(built[0][name], built[1][name]) {
			t.Errorf("%s differs", name)
		}
	}
	checkSums(t, built[0])
	checkArchives(t, built[0])
	checkChart(t, built[0])
	checkKrew(t, built[0])
	checkInstallation(t, built[0])
	checkDemo(t, built[0])
	for _, image := range []string{"images/index.json", "images/oci-layout"} {
		if built[0][image] == nil {
			t.Errorf("no %s", image)
		}
	}
}

// checkSums checks that checksums.txt names each other file with its checksum.
func checkSums(t *testing.T, all map[string][]byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(all["checksums.txt"]), "\n"), "\n")
	if len(lines) != len(all)-1 {
		t.Errorf("%d checksums of %d files", len(lines), len(all)-1)
	}
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		if sum := sha256.Sum256(all[name]); all[name] == nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: checksum %s", name, want)
		}
	}
}

func checkArchives(t *testing.T, all map[string][]byte) {
	t.Helper()
	name := "podfit_1.2.3_linux_" + runtime.GOARCH
	files := unpack(t, all[name+".tar.gz"])
	binary := files[name+"/podfit"]
	for _, want := range []string{"LICENSE", "NOTICE", "THIRD-PARTY-LICENSES.txt", "podfit", "kubectl-podfit", "kubectl_complete-podfit",
		"man/podfit.1", "man/podfit-recommend.1", "man/podfit-admission-controller.1",
		"completions/podfit.bash", "completions/_podfit", "completions/podfit.fish", "completions/podfit.ps1"} {
		if len(files[name+"/"+want]) == 0 {
			t.Errorf("the archive has no %s: %v", want, slices.Sorted(maps.Keys(files)))
		}
	}
	for name, text := range files {
		if strings.Contains(name, "/man/") && (!strings.HasPrefix(string(text), ".nh\n.TH") || !strings.Contains(string(text), "podfit 1.2.3")) {
			t.Errorf("%s: %.80s", name, text)
		}
		if home, _ := os.UserHomeDir(); len(home) > 1 && !strings.HasSuffix(name, "/podfit") && bytes.Contains(text, []byte(home+"/")) {
			t.Errorf("%s contains the path of this user's home", name)
		}
	}
	plugin := unpack(t, all["kubectl-"+name+".tar.gz"])
	if len(plugin) != 4 || !bytes.Equal(plugin["kubectl-podfit"], binary) {
		t.Errorf("the archive of the plugin has %v", slices.Sorted(maps.Keys(plugin)))
	}
	path := filepath.Join(t.TempDir(), "kubectl-podfit")
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "podfit 1.2.3 ") {
		t.Errorf("version: %v, %s", err, out)
	}
	if out, err := exec.Command(path, "recommend", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "kubectl podfit recommend") {
		t.Errorf("help of the plugin: %v\n%s", err, out)
	}
	checkMaterials(t, all[name+".cdx.json"], binary)
}

// checkMaterials checks that the bill of materials has each module of the binaries.
func checkMaterials(t *testing.T, text []byte, binaries ...[]byte) {
	t.Helper()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	urls := map[string]bool{}
	for _, c := range *bom.Components {
		if urls[c.BOMRef] {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		urls[c.PackageURL] = true
	}
	for _, binary := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(binary))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Version != "" && !urls["pkg:golang/"+m.Path+"@"+m.Version] {
				t.Errorf("the bill of materials lacks %s %s", m.Path, m.Version)
			}
		}
		if !urls["pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go")] {
			t.Errorf("components %v", slices.Sorted(maps.Keys(urls)))
		}
	}
	if !urls["pkg:npm/uplot@1.6.32"] || len(urls) < 20 {
		t.Errorf("components %v", slices.Sorted(maps.Keys(urls)))
	}
	if at := bom.Metadata.Timestamp; at != "2023-11-14T22:13:20Z" {
		t.Errorf("time %s", at)
	}
}

func checkChart(t *testing.T, all map[string][]byte) {
	t.Helper()
	var chart struct{ Name, Version, AppVersion string }
	files := unpack(t, all["podfit-1.2.3.tgz"])
	if err := yaml.Unmarshal(files["podfit/Chart.yaml"], &chart); err != nil || chart.Name != "podfit" || chart.Version != "1.2.3" || chart.AppVersion != "1.2.3" {
		t.Errorf("Chart.yaml: %+v, %v", chart, err)
	}
	for _, want := range []string{"podfit/values.yaml", "podfit/values.schema.json", "podfit/templates/_rules.tpl", "podfit/crds/podfit.dev_sizingprofiles.yaml"} {
		if files[want] == nil {
			t.Errorf("the chart has no %s", want)
		}
	}
	manifests := unpack(t, all["podfit_1.2.3_manifests.tar.gz"])
	for _, want := range []string{"deploy/Kustomization", "deploy/all-in-one/podfit.yaml", "deploy/monitoring/alerts.yaml"} {
		if manifests["podfit_1.2.3_manifests/"+want] == nil {
			t.Errorf("the manifests have no %s", want)
		}
	}
	text := string(all["podfit_1.2.3_manifests.yaml"])
	if strings.Count(text, "image: ghcr.io/podfit/podfit:1.2.3\n") != 3 || strings.Count(text, "\nkind: CustomResourceDefinition") != 6 {
		t.Errorf("the manifests have other images or CRDs than expected")
	}
	for name, content := range manifests {
		if strings.Contains(string(content), "podfit/podfit:0.1.0") || strings.Contains(string(content), "newTag: 0.1.0") {
			t.Errorf("%s has an image with another version", name)
		}
	}
}

// checkKrew checks the rules of Krew's index.
func checkKrew(t *testing.T, all map[string][]byte) {
	t.Helper()
	var plugin struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version, ShortDescription, Description, Homepage string
			Platforms                                        []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.UnmarshalStrict(all["krew/podfit.yaml"], &struct {
		APIVersion, Kind string
		Metadata, Spec   any
	}{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(all["krew/podfit.yaml"], &plugin); err != nil {
		t.Fatal(err)
	}
	s := plugin.Spec
	if plugin.Metadata.Name != "podfit" || s.Version != "v1.2.3" || s.Homepage == "" || s.Description == "" || len(s.ShortDescription) > 50 || len(s.Platforms) != 1 {
		t.Fatalf("%+v", plugin)
	}
	p := s.Platforms[0]
	archive := all[p.URI[strings.LastIndex(p.URI, "/")+1:]]
	sum := sha256.Sum256(archive)
	if archive == nil || hex.EncodeToString(sum[:]) != p.SHA256 || p.Selector.MatchLabels["os"] != "linux" || p.Selector.MatchLabels["arch"] != runtime.GOARCH {
		t.Errorf("%+v", p)
	}
	files := unpack(t, archive)
	for _, f := range p.Files {
		if files[f.From] == nil || f.To != "." {
			t.Errorf("the archive has no %s", f.From)
		}
	}
	if files[p.Bin] == nil || files["LICENSE"] == nil {
		t.Errorf("the archive has %v", slices.Sorted(maps.Keys(files)))
	}
}

// Windows has no symbolic links in archives, and programs end with .exe.
func TestWritePlatform_windows_writesZipArchives(t *testing.T) {
	dir := t.TempDir()
	binary, err := os.ReadFile(os.Args[0]) // any binary of Go
	if err != nil {
		t.Fatal(err)
	}
	r := release{root: "../..", out: filepath.Join(dir, "out"), version: "1.2.3", created: time.Unix(epoch, 0).UTC(), binaries: dir, sums: map[string]string{}}
	r.licenses = []file{{name: "LICENSE", mode: 0o644, content: []byte("license")}}
	r.manual = []file{{name: "man/podfit.1", mode: 0o644, content: []byte("page")}}
	p := platform{"windows", "amd64"}
	if err := os.WriteFile(r.binary(p), binary, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.writePlatform(p); err != nil {
		t.Fatal(err)
	}
	for archive, want := range map[string][]string{
		"podfit_1.2.3_windows_amd64.zip":         {"podfit_1.2.3_windows_amd64/LICENSE", "podfit_1.2.3_windows_amd64/podfit.exe"},
		"kubectl-podfit_1.2.3_windows_amd64.zip": {"LICENSE", "kubectl-podfit.exe"},
	} {
		z, err := zip.OpenReader(filepath.Join(r.out, archive))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = z.Close() })
		var names []string
		for _, f := range z.File {
			names = append(names, f.Name)
			if !f.Modified.Equal(r.created) {
				t.Errorf("%s: time %v", f.Name, f.Modified)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %v, want %v", archive, names, want)
		}
	}
}

func TestVersionOf_tagsAndCommits_areSemanticVersions(t *testing.T) {
	for text, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "v1.2.3-4-gabcdef0-dirty": "1.2.3-4-gabcdef0-dirty",
		"5b189191": "0.1.0-dev.g5b189191", "01234567-dirty": "0.1.0-dev.g01234567-dirty", "dev": "", "1.2": "", "v01.2.3": "", "": "", "1.2.3+x": "",
	} {
		got, err := versionOf(text, "0.1.0")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if want != "" && !semantic.MatchString(got) {
			t.Errorf("%q is not a semantic version", got)
		}
	}
}

func TestRun_wrongArguments_areNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"--out is required":           {"--version=1.2.3"},
		"--version must be":           {"--out=x", "--version=next"},
		"linux/amd64, linux/arm64":    {"--out=x", "--version=1.2.3", "--platforms=plan9/amd64"},
		"flag provided but not":       {"--push"},
		"Chart.yaml: no such file or": {"--out=x", "--version=1.2.3", "--root=/nonexistent"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
