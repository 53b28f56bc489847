// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The command in all documents updates the CRDs, whoever has created them: kubectl, Helm, or upstream.
func TestCRDs_installedInAnyWay_areUpdatedByOneCommand(t *testing.T) {
	w := cluster(t)
	current := filepath.Join(t.TempDir(), "crds.yaml")
	text, err := w.podfitOutput(t, "crds")
	if err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "older.yaml")
	for file, content := range map[string]string{current: text, older: outdated(text)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(args ...string) func(*testing.T) {
		return func(t *testing.T) {
			if _, err := w.kubectlApply(args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, install := range map[string]func(*testing.T){
		"kubectl apply":               apply("-f", older),
		"kubectl apply --server-side": apply("--server-side", "-f", older),
		"upstream's manifests":        apply("-f", filepath.Join(upstreamModule(t), "deploy", "vpa-v1-crd-gen.yaml")),
		"upstream's chart": func(t *testing.T) {
			if _, err := w.install(t, upstream(t), nil); err != nil {
				t.Fatal(err)
			}
		},
		"helm install": func(t *testing.T) {
			c := load(t, folder)
			for _, f := range c.Raw {
				f.Data = []byte(outdated(string(f.Data)))
			}
			for _, f := range c.Files {
				if strings.HasPrefix(f.Name, "crds/") {
					f.Data = []byte(outdated(string(f.Data)))
				}
			}
			if _, err := w.install(t, c, nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.clean(t)
			defer w.clean(t)
			install(t)
			for range 2 {
				if _, err := w.kubectlApply("--server-side", "--force-conflicts", "-f", current); err != nil {
					t.Fatal(err)
				}
				for _, want := range parse(t, text) {
					got, err := w.Dynamic.Resource(crdResource).Get(t.Context(), want.GetName(), metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(versionsOf(want.Object), versionsOf(got.Object)); diff != "" {
						t.Errorf("%s (-want +got)\n%.2000s", want.GetName(), diff)
					}
				}
			}
		})
	}
}

// outdated returns CRDs as those of an older version, with other descriptions.
func outdated(text string) string {
	return strings.ReplaceAll(text, " is the ", " was the ")
}

// versionsOf returns the versions of a CRD.
func versionsOf(crd map[string]any) any {
	spec, _ := crd["spec"].(map[string]any)
	return spec["versions"]
}
