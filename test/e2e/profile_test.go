// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// sizingProfile returns the manifest of a SizingProfile.
func sizingProfile(name, spec string) string {
	return "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// withProfile returns the manifest of a VPA that references a profile.
func withProfile(name string) string { return "  recommenders: [{name: " + name + "}]" }

const (
	exact  = "{base: default, about: no margin, histogram: {margin: 0, floorMillicores: 1, floorMiB: 1}}"
	double = "{base: default, about: twice as much, histogram: {margin: 1, floorMillicores: 1, floorMiB: 1}}"
	// The API server does not validate time zones.
	nowhere = "{base: busy-hours, about: nowhere, busyHours: {from: 9, to: 17, timeZone: Mars/Olympus}}"
)

// TestSizingProfiles_changedAndDeleted_areFollowed checks VPAs whose SizingProfile is created, changed, made invalid, deleted
// and created again.
func TestSizingProfiles_changedAndDeleted_areFollowed(t *testing.T) {
	p := newPlace(t, "sizing-profiles")
	p.checkProfileValidation()

	w := steady("steady")
	p.apply(sizingProfile("e2e-mine", exact), w.manifest(), autoscaler("steady", "", "steady", "Off", withProfile("e2e-mine")))
	wide := spec{Name: "wide", Replicas: 1, CPU: "3000m"}
	p.apply(wide.manifest(), autoscaler("wide", "", "wide", "Off", withProfile("busy-hours")))
	p.eventually("the target equals the usage", measured, p.about("steady", 300, 200))
	p.checkTypoWarnings()
	p.apply(sizingProfile("e2e-mine", double))
	p.eventually("the target follows the changed profile", 30*time.Second, p.about("steady", 600, 400))
	p.eventually("CPU is a quarter of a node", measured, p.quarterOfANode("wide"))
	p.apply(steady("full").manifest(), autoscaler("full", "", "full", "Off", withProfile("packed")))
	p.eventually("full nodes need three days of usage", measured, p.conditionHas("full", v1alpha1.ConditionPackingNotPossible,
		"Profile packed sizes container app as balanced does: fewer than three days of its memory usage are known, or"))

	p.apply(sizingProfile("e2e-mine", nowhere))
	p.eventually("a condition says that the profile is invalid", 30*time.Second,
		p.unusable("steady", v1alpha1.ReasonInvalid, `spec.busyHours.timeZone must be a name of the IANA database such as Europe/Berlin, got "Mars/Olympus"`))
	p.always("the numbers stay", 15*time.Second, p.about("steady", 600, 400))
	p.apply(sizingProfile("e2e-mine", double))
	p.eventually("the condition is removed", 30*time.Second, p.usable("steady"))

	profiles := p.Dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSizingProfiles))
	if err := profiles.Delete(t.Context(), "e2e-mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("a condition says that the profile is deleted", 30*time.Second,
		p.unusable("steady", v1alpha1.ReasonDeleted, "SizingProfile e2e-mine was deleted; its last valid parameters stay in use"))
	p.always("the numbers stay", 15*time.Second, p.about("steady", 600, 400))

	p.recommender.Kill()
	again, err := p.healthy(t.Context(), recommender())
	if err != nil {
		t.Fatal(err)
	}
	p.recommender = again
	p.eventually("a condition says that the profile is missing after a restart", time.Minute,
		p.unusable("steady", v1alpha1.ReasonDeleted, "SizingProfile e2e-mine was deleted; the last recommendation is kept"))
	p.always("the numbers stay", 15*time.Second, p.about("steady", 600, 400))

	// Without the CRD there is no profile. Profiles are used again once the CRD is installed.
	crds := p.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := crds.Delete(t.Context(), "sizingprofiles.podfit.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("the CRD is deleted", time.Minute, func(ctx context.Context) error {
		if _, err := crds.Get(ctx, "sizingprofiles.podfit.dev", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD still exists: %w", err)
		}
		if _, err := profiles.List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the kind is still served: %w", err)
		}
		return nil
	})
	p.eventually("the log names the remedy", 30*time.Second, func(context.Context) error {
		if log := p.recommender.Tail(1000); !strings.Contains(log, "podfit crds | kubectl apply --server-side --force-conflicts -f -") {
			return errors.New("the log has no such line")
		}
		return nil
	})
	p.always("the numbers stay", 10*time.Second, p.about("steady", 600, 400))
	if err := p.Install(t.Context(), filepath.Join(p.root, "deploy")); err != nil {
		t.Fatal(err)
	}
	p.eventually("the profile can be created again", 30*time.Second, func(ctx context.Context) error {
		return p.ApplyYAML(ctx, "", sizingProfile("e2e-mine", double))
	})
	p.eventually("the condition is removed", time.Minute, p.usable("steady"))
	p.always("the numbers are those of the profile", 10*time.Second, p.about("steady", 600, 400))
	if err := profiles.Delete(t.Context(), "e2e-mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkProfileValidation checks that the API server refuses invalid profiles.
func (p *place) checkProfileValidation() {
	p.Helper()
	for _, tt := range []struct{ name, spec, want string }{
		{"balanced", "{base: cost}", "metadata.name must not be the name of a built-in profile"},
		{"bad", "{base: magic}", `Unsupported value: "magic"`},
		{"bad", "{base: window-max}", `Unsupported value: "window-max": supported values: "default"`},
		{"bad", "{memory: {oomBudget: 3}}", "spec.memory.oomBudget: Invalid value: 3: must be between 0.001 and 0.5"},
		{"bad", "{memory: {days: 0}}", "should be greater than or equal to 1"},
		{"bad", "{memory: {days: 2.5}}", "must be of type integer"},
		{"bad", "{memory: {days: 10, longDays: 3}}", "longDays must be at least days"},
		{"bad", "{memory: {shrinkAfter: soon}}", "should match"},
		{"bad", "{memory: {shrinkAfter: 721h}}", "must be between 0s and 720h"},
		{"bad", "{cpu: {window: 1m}}", "must be between 1h and 72h"},
		{"bad", "{base: default, cpu: {factor: 1}}", "cpu can only be set if base is balanced, cost or critical"},
		{"bad", "{histogram: {margin: 0.2}}", "histogram can only be set if base is default"},
		{"bad", "{base: default, histogram: {cpuPercentile: 0.5, cpuLowerPercentile: 0.9}}", "cpuLowerPercentile must be at most cpuPercentile"},
		{"bad", "{base: busy-hours, busyHours: {mostOfNodeBase: capacity}}", `Unsupported value: "capacity": supported values: "Allocatable", "Capacity"`},
		{"bad", "{base: busy-hours, busyHours: {priorityClasses: [{name: gold, criticality: 4}]}}", "should be less than or equal to 3"},
		{"bad", "{base: busy-hours, busyHours: {priorityClasses: [{name: gold}]}}", "priorityClasses[0].criticality: Required value"},
		{"bad", "{base: busy-hours, busyHours: {priorityClasses: [{name: gold, criticality: 2}, {name: gold, criticality: 3}]}}", "duplicate entries for key [name=\"gold\"]"},
		{"bad", "{base: busy-hours, busyHours: {from: 9}}", "from and to must be set together"},
		{"bad", "{base: busy-hours, busyHours: {from: 9, to: 9}}", "from and to must differ"},
		{"bad", "{base: busy-hours, busyHours: {timeZone: Europe/Berlin}}", "timeZone can only be set together with from and to"},
		{"bad", "{base: busy-hours, busyHours: {from: 9, to: 17, timeZone: Europe/Berlin, utcOffset: 1}}", "timeZone and utcOffset cannot both be set"},
	} {
		err := p.ApplyYAML(p.Context(), "", sizingProfile(tt.name, tt.spec))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			p.Errorf("%s %s: %v, want %q", tt.name, tt.spec, err, tt.want)
		}
	}
}

// warnings collects the warnings of the API server.
type warnings []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// checkTypoWarnings creates VPAs with misspelled names of profiles.
func (p *place) checkTypoWarnings() {
	p.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		p.Fatal(err)
	}
	var said warnings
	config.WarningHandler = &said
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		p.Fatal(err)
	}
	as := client.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns)
	for name, want := range map[string]string{
		"ballanced": `podfit has no profile "ballanced"; did you mean "balanced"?`, "e2e-mime": `podfit has no profile "e2e-mime"; did you mean "e2e-mine"?`,
		"frugal": "", "balanced": "", "e2e-mine": "",
	} {
		said = nil
		objects, err := bed.Parse([]byte(autoscaler("names-"+name, "", "nothing", "Off", withProfile(name))))
		if err != nil {
			p.Fatal(err)
		}
		if _, err := as.Create(p.Context(), objects[0], metav1.CreateOptions{}); err != nil {
			p.Error(err)
		}
		if text := strings.Join(said, "\n"); want == "" && text != "" || !strings.Contains(text, want) {
			p.Errorf("%s: got warning %q, want %q", name, text, want)
		}
	}
}

// about returns a check that a VPA's target is these millicores and MiB, within the accuracy of the metrics.
func (p *place) about(name string, millicores, mib int64) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, name)
		if err != nil {
			return err
		}
		if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) != 1 {
			return fmt.Errorf("the recommendation of %s is %v", name, a.Status.Recommendation)
		}
		target := a.Status.Recommendation.ContainerRecommendations[0].Target
		cpu, memory := target.Cpu().MilliValue(), target.Memory().Value()>>20
		if cpu < millicores*95/100 || cpu > millicores*110/100 || memory < mib*99/100 || memory > mib*110/100 { // buckets are 5 % wide
			return fmt.Errorf("target of %s is %dm and %dMi, want about %dm and %dMi", name, cpu, memory, millicores, mib)
		}
		return nil
	}
}

func (p *place) quarterOfANode(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		nodes, err := p.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		want := nodes.Items[0].Status.Allocatable.Cpu().MilliValue() / 4 // all nodes are equal
		a, err := p.Autoscaler(ctx, p.ns, name)
		if err != nil {
			return err
		}
		if a.Status.Recommendation == nil {
			return errors.New("there is no recommendation")
		}
		if got := a.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().MilliValue(); got != want {
			return fmt.Errorf("target is %dm, want %dm", got, want)
		}
		return nil
	}
}

// unusable returns a check that a VPA has the condition for an unusable profile.
func (p *place) unusable(name, reason, message string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := p.condition(ctx, name, v1alpha1.ConditionSizingProfileUsable)
		if err != nil {
			return err
		}
		if c.Status != corev1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, message) {
			return fmt.Errorf("got condition %+v", c)
		}
		return nil
	}
}

// usable returns a check that a VPA has no condition for an unusable profile.
func (p *place) usable(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, name)
		if err != nil {
			return err
		}
		for _, c := range a.Status.Conditions {
			if c.Type == vpav1.VerticalPodAutoscalerConditionType(v1alpha1.ConditionSizingProfileUsable) {
				return fmt.Errorf("got condition %+v", c)
			}
		}
		return nil
	}
}
