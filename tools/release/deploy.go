// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// chartLine matches the lines of Chart.yaml with versions.
var chartLine = regexp.MustCompile(`(?m)^(version|appVersion): "?([^"\s]+)"?`)

// chartVersion returns the version in Chart.yaml.
func chartVersion(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "chart", "Chart.yaml"))
	if err != nil {
		return "", err
	}
	found := map[string]string{}
	for _, m := range chartLine.FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2]
	}
	if found["version"] == "" || found["version"] != found["appVersion"] {
		return "", fmt.Errorf("deploy/chart/Chart.yaml: version and appVersion must be equal, got %q and %q", found["version"], found["appVersion"])
	}
	return found["version"], nil
}

// folder reads the files of a folder, with names relative to it.
func folder(dir string) (out []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out = append(out, file{name: filepath.ToSlash(name), mode: 0o644, content: content})
		return err
	})
	return out, err
}

// writeChart writes the Helm chart, with the version of the release.
func (r *release) writeChart() error {
	files, err := folder(filepath.Join(r.root, "deploy", "chart"))
	if err != nil {
		return err
	}
	for i := range files {
		if files[i].name == "Chart.yaml" {
			files[i].content = chartLine.ReplaceAll(files[i].content, []byte(`$1: "`+r.version+`"`))
		}
	}
	content, err := tarball(below("podfit", files), r.created)
	if err != nil {
		return err
	}
	return r.write("podfit-"+r.version+".tgz", content)
}

// writeManifests writes an archive with the folder of the manifests and kustomizations, and the manifests in one file. Their images have
// the version of the release.
func (r *release) writeManifests(chart string) error {
	files, err := folder(filepath.Join(r.root, "deploy"))
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f file) bool {
		return strings.HasPrefix(f.name, "chart/") || strings.HasSuffix(f.name, ".go") || f.name == "Dockerfile"
	})
	image := regexp.MustCompile(`(image: ghcr\.io/podfit/podfit:|newTag: )` + regexp.QuoteMeta(chart) + `\b`)
	var all bytes.Buffer
	for i := range files {
		files[i].content = image.ReplaceAll(files[i].content, []byte("${1}"+r.version))
		if !strings.Contains(files[i].name, "/") && strings.HasSuffix(files[i].name, ".yaml") {
			fmt.Fprintf(&all, "---\n%s", bytes.TrimPrefix(files[i].content, []byte("---\n")))
		}
	}
	name := "podfit_" + r.version + "_manifests"
	content, err := tarball(below(name+"/deploy", files), r.created)
	if err != nil {
		return err
	}
	if err := r.write(name+".tar.gz", content); err != nil {
		return err
	}
	return r.write(name+".yaml", all.Bytes())
}

// krew is the manifest for Krew, the manager of kubectl's plugins.
var krew = template.Must(template.New("krew").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: podfit
spec:
  version: v{{.Version}}
  homepage: https://github.com/podfit/podfit
  shortDescription: Right-size the requests of containers
  description: |
    Recommends CPU and memory requests from the usage of containers, explains
    recommendations and evictions, forecasts the capacity of node pools, and
    replays recorded usage with other settings. It only reads the cluster,
    and needs no installation in it. It also works with the Vertical Pod
    Autoscaler.
  caveats: |
    Begin with:
      kubectl podfit recommend -n NAMESPACE
      kubectl podfit explain deployment/NAME
  platforms:
{{- range .Platforms}}
  - selector:
      matchLabels: {os: {{.OS}}, arch: {{.Arch}}}
    uri: https://github.com/podfit/podfit/releases/download/v{{$.Version}}/{{.Archive}}
    sha256: {{.Sum}}
    bin: {{.Binary}}
    files:
    - {from: {{.Binary}}, to: .}
    - {from: LICENSE, to: .}
    - {from: NOTICE, to: .}
    - {from: THIRD-PARTY-LICENSES.txt, to: .}
{{- end}}
`))

// writeKrew writes the manifest for Krew, with the checksums of the archives. linux/s390x is left out: the validator of Krew's index does
// not know this platform and refuses manifests that contain it.
func (r *release) writeKrew() error {
	type entry struct{ OS, Arch, Archive, Sum, Binary string }
	data := struct {
		Version   string
		Platforms []entry
	}{Version: r.version}
	for _, p := range r.platforms {
		if p.arch == "s390x" {
			continue
		}
		archive := p.archive(fmt.Sprintf("kubectl-podfit_%s_%s_%s", r.version, p.os, p.arch))
		data.Platforms = append(data.Platforms, entry{p.os, p.arch, archive, r.sums[archive], p.exe("kubectl-podfit")})
	}
	var out bytes.Buffer
	if err := krew.Execute(&out, data); err != nil {
		return err
	}
	return r.write("krew/podfit.yaml", out.Bytes())
}
