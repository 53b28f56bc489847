// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// demoLimit is the maximum size of a demo archive in bytes. Its download should take less time than the build from source.
const demoLimit = 90_000_000

// machines are the architectures that have a demo archive, with their names in the output of uname -m.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// hasDemo reports whether there is a demo archive for a platform.
func hasDemo(p platform) bool { return p.os == "linux" && machines[p.arch] != "" }

// demoTexts are the files of a demo archive for its user. @NAME@ is replaced.
//
//go:embed demo
var demoTexts embed.FS

// demoPrograms are the executables of a demo archive. podfit is a link to the demo, which is also podfit: together they are a third smaller.
var demoPrograms = []string{"controlplane", "demo", "localcluster", "metrics-server"}

// demoPackages are the packages of these executables, as arguments of tools/licenses.
var demoPackages = []string{"test/e2e:./demo", "localcluster:./cmd/localcluster", "localcluster:./cmd/controlplane", "localcluster/metricsserver:."}

// demoLicenses is the title of the step that reads their licenses, which are the same for all architectures.
const demoLicenses = "licenses of the modules linked into the demo"

// demoFolder is where the executables of the demo for a platform are compiled.
func (r *release) demoFolder(p platform) string { return filepath.Join(r.binaries, "demo-"+p.arch) }

// compileDemo builds the executables of the demo. The first time, this compiles Kubernetes, which takes minutes.
func (r *release) compileDemo(ctx context.Context, p platform, progress io.Writer) error {
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.demoFolder(p), 0o755); err != nil {
		return err
	}
	demo := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "test", "e2e"), "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X podfit.dev/podfit/internal/app/process.Version="+r.version, "-o", filepath.Join(r.demoFolder(p), "demo"), "./demo")
	demo.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if err := command(demo); err != nil {
		return err
	}
	cluster := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "localcluster"), "run", "-buildvcs=false", "./cmd/localcluster", "build",
		"--export="+r.demoFolder(p), "--arch="+p.arch)
	cluster.Stderr = progress
	if err := cluster.Run(); err != nil {
		return fmt.Errorf("run %s: %w", strings.Join(cluster.Args, " "), err)
	}
	return nil
}

// writeDemo writes the demo archive of a platform and its bill of materials.
func (r *release) writeDemo(p platform) error {
	files, err := r.demoFiles(p)
	if err != nil {
		return err
	}
	files = append(files, r.demo...)
	var programs [][]byte
	for _, name := range demoPrograms {
		program, err := os.ReadFile(filepath.Join(r.demoFolder(p), name))
		if err != nil {
			return err
		}
		programs = append(programs, program)
		files = append(files, file{name: "bin/" + name, mode: 0o755, content: program})
	}
	files = append(files, file{name: "bin/podfit", mode: 0o777, link: "demo"})
	name := fmt.Sprintf("podfit_demo_%s_%s_%s", r.version, p.os, p.arch)
	content, err := tarball(below(name, files), r.created)
	if err != nil {
		return err
	}
	if len(content) > demoLimit {
		return fmt.Errorf("%s has %d bytes; the limit is %d", p.archive(name), len(content), demoLimit)
	}
	if err := r.write(p.archive(name), content); err != nil {
		return err
	}
	bom, err := r.materials(p, "podfit-demo", content, programs...)
	if err != nil {
		return err
	}
	return r.write(name+".cdx.json", bom)
}

// demoFiles returns the texts of a demo archive, and the manifests that the demo installs.
func (r *release) demoFiles(p platform) ([]file, error) {
	files, err := folder(filepath.Join(r.root, "deploy"))
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f file) bool {
		top, _, nested := strings.Cut(f.name, "/")
		return path.Ext(f.name) != ".yaml" || nested && top != "crds" && top != "rights"
	})
	files = below("deploy", files)
	fill := strings.NewReplacer("@VERSION@", r.version, "@MACHINE@", machines[p.arch])
	for name, mode := range map[string]int64{"demo": 0o755, "README.txt": 0o644} {
		text, err := demoTexts.ReadFile("demo/" + name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, mode: mode, content: []byte(fill.Replace(string(text)))})
	}
	return files, nil
}
