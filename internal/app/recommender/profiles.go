// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/profile"
)

// defaultProfile is the profile of autoscalers that name none. The flags shape it; its numbers are upstream's.
const defaultProfile = "default"

// profileLister reads the SizingProfiles of the cluster.
type profileLister interface {
	List(context.Context) ([]kube.SizingProfile, error)
}

// nodeLister reads what nodes there are, and which of them the pods ask for.
type nodeLister interface {
	Nodes() []cluster.Node
	Selectors() [][]string
}

// profiles are the ways to size that autoscalers may name: those that are built in, and the SizingProfiles of the cluster.
// It belongs to the recommender's goroutine.
type profiles struct {
	builtin map[string]recommend.Profile
	own     map[string]*definition
	// unusable has the profile of each autoscaler whose status says that its profile cannot be used.
	unusable map[cluster.Key]string
	learnt   int  // how often a SizingProfile has been learnt, ever: it numbers editions
	given    bool // --recommender-name was given: it alone says who is served, as upstream has it
	params   recommend.Params
	log      *slog.Logger

	source profileLister // nil: there are only those built in
	listed bool          // it is known which there are
	away   error         // why they could not be listed the last time

	nodes  nodeLister                     // nil: not known
	chosen map[cluster.Workload]edition   // whose extension each workload's history has
	most   map[cluster.Workload]int64     // millicores of the smallest node of each whose profile asks for it
	held   map[cluster.Workload]time.Time // until when nothing shrinks: what was remembered was of no use to the profile
	left   map[cluster.Workload]time.Time // since when no autoscaler names those that are chosen for
	begun  []cluster.Workload             // whose profile remembers something since now, and may get it back from storage

	kept memo[cluster.Workload, remembered] // remembering
}

// remembered is the profile that says what is remembered of a workload, and the autoscaler that names it.
type remembered struct {
	choice
	by *cluster.Autoscaler
}

// A definition is what is known of a SizingProfile.
type definition struct {
	version string             // as it was last read
	good    *recommend.Profile // its last parameters that made sense; nil: none are known
	changes int                // the number of its edition
	problem string             // what is wrong with it, "" when nothing is
	gone    bool               // it has been deleted
	named   time.Time          // when an autoscaler last named it, or it was seen to be gone; of one that is gone
}

// An edition is a profile as long as its parameters do not change. The zero value is none.
type edition struct {
	name     string
	changes  int
	remember bool // it needs an extension
}

// choice is the profile that sizes an autoscaler's workload.
type choice struct {
	recommend.Profile
	edition
	usable bool // there is one; else what was recommended last stays
}

// newProfiles returns the built-in profiles, the default one as the flags shape it.
func newProfiles(c *Config, log *slog.Logger) *profiles {
	p := &profiles{
		builtin: map[string]recommend.Profile{}, own: map[string]*definition{}, unusable: map[cluster.Key]string{}, given: c.NameGiven(), params: c.Sizing.params(), log: log,
		chosen: map[cluster.Workload]edition{}, most: map[cluster.Workload]int64{}, held: map[cluster.Workload]time.Time{},
		left: map[cluster.Workload]time.Time{},
	}
	for _, b := range recommend.Builtins() {
		p.builtin[b.Name] = p.rounded(b)
	}
	d := p.builtin[defaultProfile]
	d.Params, d.Estimator = p.params, recommend.Default(p.params)
	p.builtin[defaultProfile] = d
	return p
}

// rounded makes a profile round as the flags say.
func (p *profiles) rounded(r recommend.Profile) recommend.Profile {
	r.RoundMillicores, r.RoundBytes, r.Humanize = p.params.RoundMillicores, p.params.RoundBytes, p.params.Humanize
	return r
}

// read lists the SizingProfiles. While they cannot be listed, what is known of them stands.
func (p *profiles) read(ctx context.Context) {
	if p.given || p.source == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := p.source.List(ctx)
	missing := errors.Is(err, kube.ErrUnsupported)
	if err != nil {
		p.cannotRead(ctx, err, missing)
		if !missing {
			return
		}
	} else if p.away != nil {
		p.log.Info("SizingProfiles can be read now", slog.Int("count", len(list)))
		p.away = nil
	}
	p.listed = true
	there := make(map[string]bool, len(list))
	for i := range list {
		there[list[i].Name] = true
		p.learn(&list[i])
	}
	for name, d := range p.own {
		if !there[name] && !d.gone {
			d.gone, d.version = true, ""
			p.log.Warn("A SizingProfile is gone; those that name it are sized by what it last said", slog.String("profile", name))
		}
	}
}

func (p *profiles) cannotRead(ctx context.Context, err error, missing bool) {
	if errors.Is(ctx.Err(), context.Canceled) || p.away != nil && errors.Is(p.away, kube.ErrUnsupported) == missing {
		return // said already
	}
	p.away = err
	switch {
	case missing:
		p.log.Info("There are no SizingProfiles in this cluster, only the profiles that are built in",
			slog.String("remedy", "install the CRDs if you want your own: podfit crds | kubectl apply -f -"))
	case errors.Is(err, kube.ErrForbidden):
		p.log.Info("SizingProfiles may not be read; of those that are not built in, what is known stands",
			slog.String("remedy", "if you want your own, let the recommender list sizingprofiles.podfit.dev, as deploy/10-rbac.yaml does"), slog.Any("error", err))
	default:
		p.log.Warn("Cannot read SizingProfiles; what is known of them stands", slog.Any("error", err))
	}
}

// learn takes one SizingProfile as it is now.
func (p *profiles) learn(o *kube.SizingProfile) {
	d := p.own[o.Name]
	if d == nil {
		d = &definition{}
		p.own[o.Name] = d
	}
	if d.version == o.Version {
		return
	}
	before := *d
	d.version, d.gone, d.problem, d.named = o.Version, false, "", time.Time{}
	parsed, err := profile.Parse(o.JSON)
	if err != nil {
		d.problem = err.Error()
		p.log.Warn("A SizingProfile makes no sense; those that name it are sized by what it last said, if that is known",
			slog.String("profile", o.Name), slog.Any("error", err))
		return
	}
	parsed = p.rounded(parsed)
	d.good = &parsed
	p.learnt++
	d.changes = p.learnt
	p.log.Info("Read a SizingProfile", slog.String("profile", o.Name), slog.Bool("new", before.good == nil), slog.String("about", parsed.About))
}

// forget forgets the SizingProfiles that are gone and that no autoscaler has named for a while. Who deletes both to create them
// again, as tools do, finds what the profile last said.
func (p *profiles) forget(now time.Time, all []*cluster.Autoscaler) {
	gone := false
	for _, d := range p.own {
		if gone = gone || d.gone; d.gone && d.named.IsZero() {
			d.named = now
		}
	}
	if !gone {
		return
	}
	for _, a := range all {
		if d := p.own[a.Recommender]; d != nil {
			d.named = now
		}
	}
	maps.DeleteFunc(p.own, func(_ string, d *definition) bool { return d.gone && now.Sub(d.named) >= modelStateTTL })
}

// of returns the profile that sizes an autoscaler's workload.
func (p *profiles) of(a *cluster.Autoscaler) choice {
	if p.given {
		return p.choose(p.builtin[defaultProfile], 0)
	}
	if b, ok := p.builtin[a.Recommender]; ok {
		return p.choose(b, 0)
	}
	if d := p.own[a.Recommender]; d != nil && d.good != nil {
		return p.choose(*d.good, d.changes)
	}
	if p.knows(a) {
		return choice{}
	}
	return p.choose(p.builtin[defaultProfile], 0)
}

func (p *profiles) choose(r recommend.Profile, changes int) choice {
	return choice{Profile: r, edition: edition{r.Name, changes, r.Extend != nil}, usable: true}
}

// knows reports whether an autoscaler names a profile of podfit's: one that is built in, one that there is or has been, or
// one of which its status says so.
func (p *profiles) knows(a *cluster.Autoscaler) bool {
	if p.given {
		return false
	}
	_, builtin := p.builtin[a.Recommender]
	return builtin || p.own[a.Recommender] != nil || p.missed(a)
}

// missed reports whether an autoscaler names a profile that could not be used when its status was written, and still names it.
func (p *profiles) missed(a *cluster.Autoscaler) bool {
	name, ok := p.unusable[a.Key]
	return ok && name == a.Recommender
}

// noteUnusable learns from the status of autoscalers which of them name a profile that cannot be used: one that was deleted, or
// that is invalid. The condition does not contain the name of the profile, so a status of an earlier generation, in
// which the autoscaler may have named another profile, is only used if this process already knows the name.
func (p *profiles) noteUnusable(all []*cluster.Autoscaler) {
	exists := make(map[cluster.Key]bool)
	for _, a := range all {
		if a.ProfileProblem != v1alpha1.ReasonDeleted && a.ProfileProblem != v1alpha1.ReasonInvalid || a.Recommender == "" {
			continue
		}
		exists[a.Key] = true
		if !a.StatusOutdated {
			p.unusable[a.Key] = a.Recommender
		}
	}
	maps.DeleteFunc(p.unusable, func(key cluster.Key, _ string) bool { return !exists[key] })
}

// sizable returns those of the autoscalers whose profile is known.
func (p *profiles) sizable(as []*cluster.Autoscaler) []*cluster.Autoscaler {
	return slices.DeleteFunc(slices.Clone(as), func(a *cluster.Autoscaler) bool { return !p.of(a).usable })
}

// afterwards is how long what a profile remembers of a workload is kept that no autoscaler names any more. Who deletes one to
// create it again, as tools do, finds it.
const modelStateTTL = 24 * time.Hour

// startAnew is how long nothing shrinks after what was remembered was of no use to another profile.
const resetHold = 24 * time.Hour

// remembering returns the profile that says what is remembered of a workload, and the autoscaler that names it. Of several
// autoscalers the one that governs it decides; the others are sized by what is remembered for it. Where its profile needs
// nothing, another's may: who tries a profile beside the one that is applied gets its numbers, too.
func (p *profiles) remembering(s *cluster.Snapshot, w cluster.Workload, governing *cluster.Autoscaler) (choice, *cluster.Autoscaler) {
	k := p.kept.get(s, w, func() remembered {
		c, by := p.whatIsRemembered(s, w, governing)
		return remembered{c, by}
	})
	return k.choice, k.by
}

func (p *profiles) whatIsRemembered(s *cluster.Snapshot, w cluster.Workload, governing *cluster.Autoscaler) (choice, *cluster.Autoscaler) {
	c := p.of(governing)
	if named := s.AutoscalersOf(w); c.usable && !c.remember && len(named) > 1 {
		others := slices.DeleteFunc(slices.Clone(named), func(a *cluster.Autoscaler) bool {
			o := p.of(a)
			return !o.usable || !o.remember || o.WeightByRequest // which would change what the one that governs goes by
		})
		if a := cluster.Oldest(others); a != nil {
			return p.of(a), a
		}
	}
	return c, governing
}

// instead returns the autoscaler, and its profile, for which the history of a workload remembers something that is of no use
// to another's profile; nil when it is of use.
func (p *profiles) instead(s *cluster.Snapshot, a, governing *cluster.Autoscaler, c *choice) (*cluster.Autoscaler, string) {
	if !c.usable || !c.remember || a == governing || governing == nil {
		return nil, ""
	}
	kept, by := p.remembering(s, a.Target, governing)
	if by == a || !kept.usable || kept.remember && kept.form() == c.form() {
		return nil, ""
	}
	return by, kept.Profile.Name
}

// form names what a profile that remembers something makes a history remember.
func (c *choice) form() string {
	return c.Extend().Form()
}

// extend makes the history of the workloads remember what their profiles need.
func (p *profiles) extend(book *usage.Store, s *cluster.Snapshot, now time.Time, governed map[cluster.Workload]bool, elect func(*cluster.Snapshot, cluster.Workload) *cluster.Autoscaler) {
	var nodes *recommend.Nodes
	for w := range governed {
		delete(p.left, w)
		c, _ := p.remembering(s, w, elect(s, w))
		if !c.usable {
			continue // what is remembered stays, for when it is
		}
		if c.MostOfNode > 0 && p.nodes != nil {
			if nodes == nil {
				nodes = recommend.NewNodes(p.nodes.Nodes(), p.nodes.Selectors())
			}
			if least := nodes.Smallest(s.PodsOf(w)); least > 0 {
				p.most[w] = least
			}
		} else {
			delete(p.most, w)
		}
		before, first := p.chosen[w], p.chosen[w] == edition{}
		if before == c.edition {
			continue
		}
		switch {
		case !c.remember && before.remember:
			book.Extend(w, nil)
		case c.remember && first:
			book.Extend(w, c.Extend)
			p.begun = append(p.begun, w)
		case c.remember:
			if anew := book.Replace(w, c.Extend); len(anew) > 0 {
				p.held[w] = now.Add(resetHold)
			}
		}
		p.chosen[w] = c.edition
	}
	p.release(book, now, governed)
}

// release forgets the workloads that no autoscaler names any more: what is remembered of them a while later.
func (p *profiles) release(book *usage.Store, now time.Time, governed map[cluster.Workload]bool) {
	for w, e := range p.chosen {
		if governed[w] {
			continue
		}
		since, left := p.left[w]
		switch {
		case !left:
			p.left[w] = now
		case now.Sub(since) >= modelStateTTL:
			if e.remember {
				book.Extend(w, nil)
			}
			delete(p.chosen, w)
			delete(p.left, w)
		}
	}
	for w, until := range p.held {
		if !governed[w] || !now.Before(until) {
			delete(p.held, w)
		}
	}
	for w := range p.most {
		if !governed[w] {
			delete(p.most, w)
		}
	}
}

// restored is told that what is stored has been given back. What was recommended before for a container of which nothing is
// remembered does not shrink for a day: its profile is another than when it was stored, or is now of another version. Nor does
// that of which less than a day is remembered, unless nothing was known before.
func (p *profiles) restored(book *usage.Store, s *cluster.Snapshot, now time.Time, elect func(*cluster.Snapshot, cluster.Workload) *cluster.Autoscaler) {
	for _, w := range p.begun {
		a := elect(s, w)
		if a == nil {
			continue
		}
		for i := range a.Advice {
			c := book.Series(w, a.Advice[i].Container)
			since := now
			if c != nil && c.Recalled() {
				if since = rememberedSince(c); !knownBefore(a, c, since) {
					continue
				}
			}
			if until := since.Add(resetHold); until.After(now) && until.After(p.held[w]) {
				p.held[w] = until
			}
		}
	}
	p.begun = nil
}

// rememberedSince returns since when a container's profile remembers anything, as far as it tells. It may have begun anew
// less than a day before the process did.
func rememberedSince(s *usage.ContainerHistory) time.Time {
	if e := s.Extension(); e != nil {
		return e.Since()
	}
	return time.Time{}
}

// boundless reports whether it is not known how much of a node a workload may have: no pod says on which it may run.
func (p *profiles) boundless(c *choice, w cluster.Workload) bool {
	return c.MostOfNode > 0 && p.nodes != nil && p.most[w] == 0
}

// knownBefore reports whether something was known of a container before its profile began to remember it, by which it was sized.
// What was remembered from the first sample on did not begin anew.
func knownBefore(a *cluster.Autoscaler, s *usage.ContainerHistory, since time.Time) bool {
	first := a.Created
	for _, r := range cluster.All {
		if seen := s.Seen(r); seen.Count > 0 && seen.First.Before(first) {
			first = seen.First
		}
	}
	return first.Before(since.Add(-time.Hour))
}

// paramsFor returns the parameters of a profile for a workload: what depends on its nodes among them.
func (p *profiles) paramsFor(c *choice, w cluster.Workload) recommend.Params {
	r := c.Params
	if least := p.most[w]; least > 0 && c.MostOfNode > 0 {
		r.MostMillicores = max(int64(float64(least)*c.MostOfNode), 1)
	}
	return r
}
