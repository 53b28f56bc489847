// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// pod sets the size of a new pod. It never rejects a pod.
func (h *Handler) pod(ctx context.Context, review *decodedReview, response *admissionv1.AdmissionResponse) (result string) {
	request := review.request
	if review.err != nil {
		h.failures.Warn("Cannot decode a pod; admitted unchanged", slog.String("namespace", truncate(request.Namespace)), slog.String("pod", truncate(request.Name)),
			slog.String("error", truncate(review.err.Error())))
		return resultError
	}
	if review.pod == nil {
		return resultSkipped
	}
	p := review.pod
	p.Namespace = request.Namespace // the namespace of the object may be empty
	projected := h.world.Project(ctx, p)
	if projected.Top.IsZero() {
		return resultSkipped
	}
	a := h.world.Governing(projected.Top)
	if a == nil {
		return resultSkipped
	}
	a = a.For(projected)
	patch, err := h.fit(a, p, projected)
	if err != nil {
		h.log.Error("Cannot encode the patch of a pod; admitted unchanged", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()), slog.Any("error", err))
		return resultError
	}
	patchWith(response, patch)
	if h.options.DryRun {
		h.log.Info("Would size a new pod", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()), slog.String("patch", string(patch)))
	} else {
		h.log.Debug("Sized a new pod", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()))
	}
	return resultApplied
}

// fit returns the JSON patch that sets the size of a pod. The order of its operations does not change.
func (h *Handler) fit(a *cluster.Autoscaler, p *corev1.Pod, projected *cluster.Pod) ([]byte, error) {
	limits := h.world.Limits(projected.Namespace)
	if h.options.Nodes != nil {
		limits.Nodes = h.options.Nodes.Sizes(p)
	}
	s := h.sized(a, limits, projected, standingOf(p))
	if s.refused.Refused() {
		h.unsized.Info("New pod keeps its own resources: the API server would reject it with the recommended ones",
			slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()), slog.String("reason", s.refused.String()))
	}
	if kept := s.limits.Kept; len(kept) > 0 {
		h.limits.Info("A new pod keeps its CPU limit although its VPA or profile asks to remove it", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()),
			slog.String("container", kept[0].Container), slog.String("reason", kept[0].Why()))
	}
	ops := make(operations, 0, 3+7*len(s.fits)+len(s.limits.Removed))
	if p.Annotations == nil {
		ops.add("/metadata/annotations", emptyObject)
	}
	for i := range projected.Containers {
		c := &projected.Containers[i]
		if projected.Container(c.Name) != c { // the API server rejects two containers of one name
			continue
		}
		switch c.Role {
		case cluster.Regular:
			ops.size(&s, "/spec/containers/"+strconv.Itoa(int(c.Index)), &p.Spec.Containers[c.Index])
		case cluster.Init, cluster.Sidecar:
			ops.size(&s, "/spec/initContainers/"+strconv.Itoa(int(c.Index)), &p.Spec.InitContainers[c.Index])
		case cluster.FixedSidecar:
		}
	}
	ops.podLevel(p, s.fits)
	text := policy.Annotation(a, s.fits)
	if s.refused.Refused() {
		text = policy.RefusedAnnotation(a, s.refused)
	}
	if s.boostRefused.Refused() {
		text = policy.WithRefusedBoost(a, text, s.boostRefused)
		h.boosts.Warn("Startup boost not applied: the API server would reject the pod", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()),
			slog.String("reason", s.boostRefused.String()))
	}
	if len(s.noBoostBase) > 0 {
		text = policy.WithoutBoost(a, text, s.noBoostBase)
		h.boosts.Warn("Startup boost not applied: a factor needs a CPU request or a recommendation", slog.String("pod", podName(p)),
			slog.String("vpa", a.Key.String()), slog.String("container", strings.Join(s.noBoostBase, ", ")))
	}
	text = policy.WithCPULimits(a, text, s.limits)
	text = policy.WithVariables(a, text, s.variables)
	if text != "" {
		ops.annotate(policy.UpdatesAnnotation, text)
	}
	ops.annotate(policy.ObservedAnnotation, policy.ObservedContainers(projected))
	return json.Marshal(ops)
}

type newSize struct {
	fits         []policy.Fitted
	originals    []policy.Original  // of boosted containers
	refused      admissible.Refusal // why the pod keeps its own resources
	boostRefused admissible.Refusal // why the pod is not boosted
	variables    []policy.Variable  // to add to the environment of containers
	noBoostBase  []string           // containers whose boost factor multiplies nothing
	limits       policy.CPULimits   // the CPU limits that are removed, and those that stay
}

// sized returns the size of a new pod, without the CPU limits that its autoscaler has removed. If the API server would reject the pod with
// this size, but not with its limits, it keeps them.
func (h *Handler) sized(a *cluster.Autoscaler, limits policy.Limits, p *cluster.Pod, standing cluster.Standing) newSize {
	without, removed := policy.WithoutCPULimits(a, limits, p, standing)
	s := h.fitted(a, limits, without, standing)
	s.limits = removed
	if without == p || !s.refused.Refused() {
		return s
	}
	refused := s.refused
	s = h.fitted(a, limits, p, standing)
	s.limits = removed.Keep(refused)
	return s
}

// fitted returns the size of a new pod. If the API server would reject the pod with its new size but not with its own resources, the pod
// gets no startup boost, and if that is not sufficient, it keeps its own resources. Init containers keep theirs if only their sizes are refused.
func (h *Handler) fitted(a *cluster.Autoscaler, limits policy.Limits, p *cluster.Pod, standing cluster.Standing) newSize {
	refusal := func(fits []policy.Fitted) admissible.Refusal {
		r := admissible.Refused(limits, p, fits)
		if r.Refused() && !(r.Kind.OfLimitRange() && admissible.Refused(limits, p, nil).Refused()) {
			return r
		}
		// If the pod violates the LimitRange with its own resources, too, the LimitRange may have changed in the meantime.
		return admissible.QuotaRefusal(limits, p, standing, fits)
	}
	var s newSize
	var init []policy.Fitted
	if a.Mode.Applies() {
		s.fits = policy.Fit(a, limits, p)
		s.variables = policy.Variables(a, limits, p, s.fits)
		if h.options.InitContainers {
			init = policy.FitInit(a, limits, p, s.fits)
		}
	}
	withInit := func(fits []policy.Fitted) []policy.Fitted {
		all := slices.Concat(fits, init)
		if len(init) == 0 || refusal(all).Refused() {
			return fits
		}
		return all
	}
	if h.options.Gates.CPUStartupBoost && a.BoostsNewPods() {
		boosted := policy.AdmissibleBoost(a, limits, p, s.fits, h.options.MaxCPUBoost)
		s.noBoostBase = boosted.NoBase
		s.boostRefused = boosted.Refusal
		fits := withInit(boosted.Fits)
		if !s.boostRefused.Refused() {
			s.boostRefused = refusal(fits)
		}
		if !s.boostRefused.Refused() {
			s.fits = fits
			s.originals = boosted.Originals
			return s
		}
	}
	s.fits = withInit(s.fits)
	s.refused = refusal(s.fits)
	if s.refused.Refused() {
		s.fits = nil
		s.variables = policy.Variables(a, limits, p, nil)
	}
	return s
}

func podName(p *corev1.Pod) string {
	if p.Name == "" {
		return p.Namespace + "/" + p.GenerateName + "*"
	}
	return p.Namespace + "/" + p.Name
}

// An operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"` // nil only if the operation has no value
}

type operations []operation

var emptyObject = struct{}{}

func (o *operations) add(path string, value any) {
	*o = append(*o, operation{Op: "add", Path: path, Value: value})
}

func (o *operations) remove(path string) { *o = append(*o, operation{Op: "remove", Path: path}) }

func (o *operations) annotate(name, value string) {
	o.add("/metadata/annotations/"+pointer.Replace(name), value)
}

// pointer escapes a name for a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func (o *operations) size(s *newSize, at string, c *corev1.Container) {
	for _, original := range s.originals {
		if original.Container == c.Name {
			o.annotate(original.Key(), original.Value())
		}
	}
	if slices.Contains(s.limits.Removed, c.Name) {
		o.remove(at + "/resources/limits/cpu")
	}
	for j := range s.fits {
		if s.fits[j].Container == c.Name {
			o.container(at+"/resources", c, &s.fits[j])
		}
	}
	for _, v := range s.variables {
		if v.Container != c.Name {
			continue
		}
		if c.Env == nil {
			o.add(at+"/env", []corev1.EnvVar{})
		}
		o.add(at+"/env/-", corev1.EnvVar{Name: v.Name, Value: v.Value})
	}
}

func (o *operations) container(at string, c *corev1.Container, f *policy.Fitted) {
	if f.Requests.Has.Empty() && f.Limits.Has.Empty() {
		return
	}
	r := &c.Resources
	// If there are claims or unknown fields, the object exists, and replacing it would remove them.
	if r.Requests == nil && r.Limits == nil && len(r.Claims) == 0 {
		o.add(at, emptyObject)
	}
	o.amounts(at+"/requests", r.Requests == nil, f.Requests)
	o.amounts(at+"/limits", r.Limits == nil, f.Limits)
}

func (o *operations) podLevel(p *corev1.Pod, fits []policy.Fitted) {
	if len(fits) == 0 || fits[0].PodLevel == nil || p.Spec.Resources == nil {
		return
	}
	o.amounts("/spec/resources/requests", p.Spec.Resources.Requests == nil, fits[0].PodLevel.Requests)
	o.amounts("/spec/resources/limits", p.Spec.Resources.Limits == nil, fits[0].PodLevel.Limits)
}

func (o *operations) amounts(at string, missing bool, amounts cluster.Resources) {
	if amounts.Has.Empty() {
		return
	}
	if missing {
		o.add(at, emptyObject)
	}
	for _, res := range cluster.All {
		if v, ok := amounts.Get(res); ok {
			o.add(at+"/"+res.String(), quantity(res, v))
		}
	}
}

// quantity formats an amount as upstream does: CPU in decimal, memory in binary units.
func quantity(res cluster.Resource, amount int64) string {
	if res == cluster.CPU {
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	}
	return resource.NewQuantity(amount, resource.BinarySI).String()
}
