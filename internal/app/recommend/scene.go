// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/inspection"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// A scene is the state of the cluster that a review is about, with what is known of its report.
type scene struct {
	review.Config
	snapshot  *cluster.Snapshot // Top of each pod is its workload, also of pods without a controller
	workloads []*workload       // that are reviewed, sorted
	byKey     map[cluster.Workload]*workload
	evictions []usage.OOM
	templates map[cluster.Workload]*kube.Template
	whole     bool // all pods and nodes of the cluster are known
	catalog   *sizing.Catalog

	unreadProfiles bool // SizingProfiles could not be read
	unread         bool // the stored usage could not be read

	selected map[cluster.Key]string // pods that --selector selects; nil: all
	labels   map[cluster.Key]string // value of the label of --group-by
}

// A workload is a workload that is reviewed.
type workload struct {
	key        cluster.Workload
	live       []*cluster.Pod
	containers []string            // of the live pods, sorted; of a CronJob without any, those of its template
	vpa        *cluster.Autoscaler // nil if there is none
	hpas       []*cluster.HorizontalAutoscaler
}

func (c *Config) readScene(ctx context.Context, clients *kube.Clients) (*scene, error) {
	world := watcher.NewWorld(clients, watcher.Options{
		Namespace: c.onlyNamespace(), Pods: watcher.AllPods, Nodes: true, HPAs: c.HPA != hpaIgnore, Evictions: true, VPAsOptional: true,
		Log: slog.New(slog.DiscardHandler),
	})
	unread, err := load(ctx, world, c.onlyNamespace())
	if err != nil {
		return nil, err
	}
	s := &scene{
		Config:    review.Config{Now: time.Now(), Nodes: world.Nodes(), Selectors: world.Selectors(), Tolerations: world.Tolerations()},
		evictions: world.MemoryEvictions(), whole: c.onlyNamespace() == "",
	}
	for _, u := range unread {
		switch {
		case u.Resource == "nodes" && apierrors.IsForbidden(u.Err):
			s.Notes = append(s.Notes, "No right to list nodes, so it is not known how many could go, and prices are those of an average node.")
		case apierrors.IsForbidden(u.Err):
			s.Missing = append(s.Missing, "no right to list "+u.Resource)
		default:
			s.Missing = append(s.Missing, fmt.Sprintf("%s: %v", u.Resource, u.Err))
		}
		s.whole = s.whole && u.Resource != "nodes"
	}
	if c.Selector != "" {
		if s.selected, err = inspection.PodLabels(ctx, clients, c.onlyNamespace(), c.Selector, ""); err != nil {
			return nil, err
		}
	}
	if name, ok := strings.CutPrefix(c.GroupBy, "label="); ok {
		if s.labels, err = inspection.PodLabels(ctx, clients, c.onlyNamespace(), name, name); err != nil {
			return nil, err
		}
	}
	if len(c.Excluded) > 0 {
		s.Notes = append(s.Notes, "Namespaces that are left out: "+strings.Join(c.Excluded, ", ")+".")
	}
	s.gather(c, world.Pods(), world.Autoscalers(), world.Horizontals())
	s.noteBare()
	s.readTemplates(ctx, c, clients)
	s.readProfiles(ctx, clients)
	return s, nil
}

// load lists the state of the cluster once, without watches. It returns the optional resources that could not be listed, without those that
// the cluster does not have, and an error if a required resource could not be listed.
func load(ctx context.Context, world *watcher.World, namespace string) ([]watcher.Unread, error) {
	const readTimeout = time.Minute // the maximum time for reading the state of the cluster
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var optional []watcher.Unread
	for _, u := range world.Load(ctx) {
		switch {
		case u.Lost == "" && apierrors.IsForbidden(u.Err):
			remedy := "grant list on " + u.Resource + ", as the ClusterRole view does, or choose another user with --context or --as"
			if namespace == "" {
				remedy += ", or select a namespace that you may read with -n NAMESPACE"
			}
			return nil, fmt.Errorf("read the cluster: list %s: %w; %s", u.Resource, u.Err, remedy)
		case u.Lost == "":
			return nil, fmt.Errorf("read the cluster: list %s: %w", u.Resource, u.Err)
		case !apierrors.IsNotFound(u.Err):
			optional = append(optional, u)
		}
	}
	return optional, ctx.Err()
}

// gather groups the live pods by workload.
func (s *scene) gather(c *Config, pods []*cluster.Pod, autoscalers []*cluster.Autoscaler, hpas []*cluster.HorizontalAutoscaler) {
	for i, p := range pods {
		if !p.Top.IsZero() || p.Static { // nothing in the cluster changes a static pod
			continue
		}
		q := *p
		q.Top = p.Workload()
		pods[i] = &q
	}
	s.snapshot = cluster.NewSnapshot(pods, autoscalers)
	s.byKey = map[cluster.Workload]*workload{}
	for _, p := range s.snapshot.Pods {
		if p.Top.IsZero() || !p.Live() || p.Placeholder || !c.includes(p.Top) {
			continue
		}
		if _, ok := s.selected[p.Key]; s.selected != nil && !ok {
			continue
		}
		w := s.byKey[p.Top]
		if w == nil {
			w = s.add(p.Top)
		}
		w.live = append(w.live, p)
		for i := range p.Containers {
			if p.Containers[i].IsSized() {
				w.addContainer(p.Containers[i].Name)
			}
		}
	}
	for _, h := range hpas {
		if w := s.byKey[h.Target]; w != nil && len(h.Utilization) > 0 {
			w.hpas = append(w.hpas, h)
		}
	}
	s.sort()
}

// add adds a workload, after all others.
func (s *scene) add(key cluster.Workload) *workload {
	w := &workload{key: key, vpa: cluster.Responsible(s.snapshot.AutoscalersOf(key), false)}
	s.byKey[key] = w
	s.workloads = append(s.workloads, w)
	return w
}

func (s *scene) sort() {
	slices.SortFunc(s.workloads, func(a, b *workload) int { return a.key.Compare(b.key) })
}

func (w *workload) addContainer(name string) {
	if at, known := slices.BinarySearch(w.containers, name); !known {
		w.containers = slices.Insert(w.containers, at, name)
	}
}

// noteBare adds a note with the command that gives VPAs to the workloads of namespaces in which some have none.
func (s *scene) noteBare() {
	var bare []string
	for _, w := range s.workloads {
		if ns := w.key.Namespace; w.vpa == nil && slices.Contains(optin.Kinds, [2]string{w.key.Group, w.key.Kind}) && !strings.HasPrefix(ns, "kube-") && !slices.Contains(bare, ns) {
			bare = append(bare, ns)
		}
	}
	if len(bare) > 0 && s.hasVPAs() {
		s.Notes = append(s.Notes, "In "+wording.Count(len(bare), "namespace")+", workloads have no VPA. If podfit runs with --namespace-opt-in, a label of a namespace creates them: kubectl label namespace "+
			strings.Join(bare[:min(len(bare), 5)], " ")+" podfit.dev/autoscale=off")
	}
}

// readProfiles reads the SizingProfiles of the cluster. A cluster without podfit has none.
func (s *scene) readProfiles(ctx context.Context, clients *kube.Clients) {
	s.catalog = sizing.NewCatalog(recommend.DefaultParams(), false)
	switch err := process.ReadProfiles(ctx, clients, s.catalog); {
	case errors.Is(err, kube.ErrForbidden): // a right in a namespace does not include them
		s.Notes = append(s.Notes, "No right to list SizingProfiles, so only the built-in profiles are known.")
		s.unreadProfiles = true
	case err != nil:
		s.Missing = append(s.Missing, fmt.Sprintf("SizingProfiles: %v", err))
	}
}

// otherProfiles returns the names of recommenders that may be SizingProfiles, if these could not be read.
func (s *scene) otherProfiles() []string {
	var out []string
	for _, w := range s.workloads {
		if !s.unreadProfiles || w.vpa == nil {
			continue
		}
		if name := w.vpa.Recommender; name != "" && !slices.Contains(builtinNames(), name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// hasVPAs reports whether a reviewed workload has a VPA with a recommendation.
func (s *scene) hasVPAs() bool {
	return slices.ContainsFunc(s.workloads, func(w *workload) bool { return w.vpa != nil && len(w.vpa.Advice) > 0 })
}

// namespaces returns the namespaces of the reviewed workloads, sorted.
func (s *scene) namespaces() []string {
	return slices.Compact(cluster.Each(s.workloads, func(w **workload) string { return (*w).key.Namespace }))
}
