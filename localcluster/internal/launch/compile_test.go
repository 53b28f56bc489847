// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuildOutput_linesOfGoBuild_becomeProgress(t *testing.T) {
	for name, c := range map[string]struct {
		lines    []string
		packages int
		want     string
	}{
		"modules are downloaded":       {[]string{"go: downloading k8s.io/api v0.36.3"}, 0, "1 modules downloaded"},
		"total known":                  {[]string{"go: downloading k8s.io/api v0.36.3", "k8s.io/api/core/v1"}, 7, "1 of 7 packages compiled"},
		"total unknown":                {[]string{"errors", "io"}, 0, "2 packages compiled"},
		"only the linker has work":     {[]string{"errors", "io"}, 2, "all 2 packages compiled, linking"},
		"a message is not a package":   {[]string{"# example.com/tool", "./main.go:3:15: undefined: nonsense", "io"}, 2, "1 of 2 packages compiled"},
		"nothing has been printed yet": {nil, 2, "0 of 2 packages compiled"},
	} {
		t.Run(name, func(t *testing.T) {
			var o buildOutput
			o.read(strings.NewReader(strings.Join(c.lines, "\n")))
			if got := o.progress(c.packages); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEstimate_numberOfPackages_givesTime(t *testing.T) {
	for packages, want := range map[int]string{
		10:   "Packages to compile: 10. This takes less than a minute.",
		3000: "Packages to compile: 3000. This takes about 9 min of CPU time, 4 min on 2 CPUs. Later builds take seconds.",
	} {
		if got := estimate(packages, 2); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBuilder_BuildAll_announcesOnlyWhatIsMissing(t *testing.T) {
	module := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/tool\n\ngo 1.26\n")
	write("main.go", "package main\n\nfunc main() {}\n")
	var out bytes.Buffer
	b := &Builder{Module: module, Cache: filepath.Join(module, "cache"), Out: &out}
	a := Artifact{Name: "tool", Contents: "an example", Dir: ".", Package: ".", Sources: []string{"go.mod", "main.go"}}
	b.mustBuild(t, a)
	for _, want := range []string{"tool           an example\n", "Packages to compile: ", "build tool: started\n", "build tool: done in "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the first build does not print %q:\n%s", want, &out)
		}
	}
	out.Reset()
	b.mustBuild(t, a)
	if out.Len() > 0 {
		t.Errorf("nothing to build, but it prints:\n%s", &out)
	}
}

// BuildAll kept an executable of other sources for the sources that it had found before the build, so that a cluster ran with kubelets of another
// commit until its sources changed.
func TestBuilder_sourcesChangeDuringTheBuild_buildsAgain(t *testing.T) {
	module := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := func(text string) string { return "package main\n\nfunc main() { print(\"" + text + "\") }\n" }
	write("go.mod", "module example.com/tool\n\ngo 1.26\n")
	write("main.go", program("first"))
	builds, changes, undo := 0, 1, false
	b := &Builder{Module: module, Cache: filepath.Join(module, "cache"), Out: writer(func(text string) {
		if text == "build tool: started\n" {
			if builds++; builds <= changes {
				write("main.go", program(fmt.Sprintf("change %d of %d", builds, changes)))
			}
		}
		if undo && builds == 1 && strings.HasPrefix(text, "build tool: done") {
			write("main.go", program("third"))
		}
	})}
	a := Artifact{Name: "tool", Contents: "an example", Dir: ".", Package: ".", Sources: []string{"go.mod", "main.go"}}
	b.mustBuild(t, a)
	if got, err := exec.Command(filepath.Join(b.Cache, "tool")).CombinedOutput(); builds != 2 || string(got) != "change 1 of 1" || err != nil {
		t.Errorf("got %q, %v after %d builds, want the executable of the changed sources after 2", got, err, builds)
	}
	write("main.go", program("first"))
	builds, changes = 0, 0
	b.mustBuild(t, a)
	if got, err := exec.Command(filepath.Join(b.Cache, "tool")).CombinedOutput(); builds != 1 || string(got) != "first" || err != nil {
		t.Errorf("of the first sources: got %q, %v after %d builds, want first after 1", got, err, builds)
	}
	builds, changes = 0, 5
	write("main.go", program("second"))
	if _, err := b.BuildAll(t.Context(), a); err == nil || !strings.Contains(err.Error(), "its source files changed during each of 3 builds") {
		t.Errorf("the sources change during every build: got %v", err)
	}
	builds, changes, undo = 0, 1, true
	write("main.go", program("third"))
	b.mustBuild(t, a)
	if got, err := exec.Command(filepath.Join(b.Cache, "tool")).CombinedOutput(); builds != 2 || string(got) != "third" || err != nil {
		t.Errorf("a change is undone during the build: got %q, %v after %d builds, want third after 2", got, err, builds)
	}
	if left, _ := filepath.Glob(filepath.Join(b.Cache, "*.fresh*")); len(left) > 0 {
		t.Errorf("builds left %v", left)
	}
}

type writer func(text string)

func (w writer) Write(text []byte) (int, error) {
	w(string(text))
	return len(text), nil
}

// Exported executables run on machines without Go, so they are static and have no paths of the folder that they are built in.
func TestBuilder_Export_intoTwoFolders_isStaticAndIdentical(t *testing.T) {
	var exported [][]byte
	for range 2 {
		module, folder := t.TempDir(), t.TempDir()
		for name, text := range map[string]string{
			"go.mod":  "module example.com/tool\n\ngo 1.26\n",
			"main.go": "package main\n\nimport (\n\t\"net\"\n\t\"os\"\n)\n\nfunc main() { _, _ = net.LookupHost(os.Args[0]) }\n", // net uses cgo by default
		} {
			if err := WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b := &Builder{Module: module, Cache: filepath.Join(module, "cache"), Out: io.Discard}
		if err := b.Export(t.Context(), folder, "arm64", Artifact{Name: "tool", Dir: ".", Package: "."}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "tool"))
		if err != nil {
			t.Fatal(err)
		}
		exported = append(exported, text)
	}
	if !bytes.Equal(exported[0], exported[1]) {
		t.Error("two exports of the same sources differ")
	}
	executable, err := elf.NewFile(bytes.NewReader(exported[0]))
	if err != nil {
		t.Fatal(err)
	}
	if libraries, err := executable.ImportedLibraries(); executable.Machine != elf.EM_AARCH64 || len(libraries) > 0 || err != nil {
		t.Errorf("machine %s, libraries %v, %v; want a static executable for arm64", executable.Machine, libraries, err)
	}
}

func TestBuilder_given_usesTheFolderAndBuildsNothing(t *testing.T) {
	folder := t.TempDir()
	b := &Builder{Given: folder, Out: io.Discard}
	if _, err := b.BuildAll(t.Context(), ControlPlane); err == nil || !strings.Contains(err.Error(), "find the executable controlplane, Kubernetes "+KubernetesVersion) {
		t.Errorf("of an empty folder: got %v", err)
	}
	want := filepath.Join(folder, "controlplane")
	if err := WriteFile(want, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if paths, err := b.BuildAll(t.Context(), ControlPlane); err != nil || paths["controlplane"] != want {
		t.Errorf("got %v, %v, want %s", paths, err, want)
	}
}

// The Go build cache serves a package to both executables only if the versions of all packages below it are equal.
func TestModules_sharedByMetricsServer_haveVersionsOfControlPlane(t *testing.T) {
	controlPlane := versions(t, ControlPlane)
	for module, version := range versions(t, MetricsServer) {
		if want, shared := controlPlane[module]; shared && version != want {
			t.Errorf("metricsserver/go.mod: %s is %s; the control plane has %s", module, version, want)
		}
	}
}

// versions returns the version of each module that an artifact links packages of.
func versions(t *testing.T, a Artifact) map[string]string {
	t.Helper()
	b, err := NewBuilder(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const format = "{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}"
	text, err := b.goCommand(t.Context(), a, "list", "-deps", "-f", format).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Logf("%s", failed.Stderr)
		}
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		module, version, found := strings.Cut(strings.TrimSpace(line), " ")
		if found {
			all[module] = version
		}
	}
	return all
}
