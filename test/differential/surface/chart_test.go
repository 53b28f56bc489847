// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surface

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// templates returns the text of templates of upstream's Helm chart.
func templates(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(upstreams(t, "../charts/vertical-pod-autoscaler/templates/"+pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates %s: %v", pattern, err)
	}
	out := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = string(b)
	}
	return out
}

// Users of upstream's Helm chart only change the images: podfit's commands accept all arguments of the chart and need no other
// ports, paths or rights.
func TestChart_upstreamTemplates_runPodfit(t *testing.T) {
	argument := regexp.MustCompile(`(?m)^\s+- --([a-z0-9-]+)=`)
	account := map[string]string{"recommender": "vpa-recommender", "updater": "vpa-updater", "admission-controller": "vpa-admission-controller"}
	podfitsRights := rights(t, documents(t, podfits+"/*.yaml"))
	for name := range parts {
		flags := podfit(t, name)
		for file, text := range templates(t, name+"-deployment.yaml") {
			args := argument.FindAllStringSubmatch(text, -1)
			if len(args) < 3 {
				t.Errorf("%s: found only %d arguments", file, len(args))
			}
			for _, a := range args {
				if flags.Lookup(a[1]) == nil {
					t.Errorf("%s sets --%s, which podfit's %s does not have", file, a[1], name)
				}
			}
			if strings.Contains(text, "command:") {
				t.Errorf("%s sets a command, which the image would need to have", file)
			}
			port := strings.TrimPrefix(flags.Lookup("address").DefValue, ":")
			if !strings.Contains(text, "containerPort: "+port) || !strings.Contains(text, "path: /health-check") {
				t.Errorf("%s has a health check that is not %s/health-check", file, port)
			}
		}
		var may []rbacv1.PolicyRule
		for file, text := range templates(t, name+"-*role*.yaml") {
			if !strings.Contains(file, "binding") {
				may = append(may, rulesOf(t, file, text)...)
			}
		}
		if extra, _ := filepath.Glob(upstreams(t, "../charts/vertical-pod-autoscaler/templates/"+name+"-leader*.yaml")); len(extra) > 0 {
			for file, text := range templates(t, name+"-leader*.yaml") {
				may = append(may, rulesOf(t, file, text)...)
			}
		}
		checked := 0
		for _, r := range podfitsRights[account[name]] {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						checked++
						if ownRights[account[name]+" "+resource] == "" && !slices.ContainsFunc(may, func(u rbacv1.PolicyRule) bool {
							return among(u.APIGroups, group) && (among(u.Resources, resource) || strings.HasSuffix(resource, "/scale") && among(u.Resources, "*/scale")) && among(u.Verbs, verb)
						}) {
							t.Errorf("%s needs the right to %s %s of group %q, which the chart does not grant", name, verb, resource, group)
						}
					}
				}
			}
		}
		if checked < 20 {
			t.Errorf("%s: checked only %d rights", name, checked)
		}
	}
}

var (
	control = regexp.MustCompile(`(?m)^\s*\{\{.*\}\}\s*$`)
	inline  = regexp.MustCompile(`\{\{[^}]*\}\}`)
)

// rulesOf returns the rules of the roles in a template, with all conditions true.
func rulesOf(t *testing.T, file, template string) (out []rbacv1.PolicyRule) {
	t.Helper()
	plain := inline.ReplaceAllString(control.ReplaceAllString(template, ""), "x")
	for _, doc := range strings.Split(plain, "\n---\n") {
		var r struct {
			Kind  string
			Rules []rbacv1.PolicyRule
		}
		if err := yaml.Unmarshal([]byte(doc), &r); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, doc)
		}
		if strings.HasSuffix(r.Kind, "Role") {
			out = append(out, r.Rules...)
		}
	}
	return out
}

// The chart sets no command, so there is an image per component with the command in it.
func TestChart_images_existForEachComponent(t *testing.T) {
	b, err := os.ReadFile(podfits + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for name := range parts {
		if want := "FROM podfit AS " + name + "\nENTRYPOINT [\"/podfit\", \"" + name + "\"]\n"; !strings.Contains(string(b), want) {
			t.Errorf("the Dockerfile has no target %s", name)
		}
		podfit(t, name) // fails if there is no such command
	}
}
