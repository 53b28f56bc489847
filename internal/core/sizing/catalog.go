// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

// defaultProfile is the profile of autoscalers that name none. The flags of the recommender set its parameters.
const defaultProfile = "default"

// A Catalog contains the profiles that autoscalers may name: the built-in ones and the SizingProfiles of the cluster.
type Catalog struct {
	params   recommend.Params
	builtin  map[string]*Choice
	profiles map[string]*definition // SizingProfiles, including deleted ones that are not yet forgotten

	// unusable contains the profile of each autoscaler whose status reports the profile as deleted or invalid.
	unusable map[cluster.Key]string

	// stored contains the SizingProfile that sized an autoscaler before this process started, until ReadStatuses has used it.
	stored map[cluster.Key]string

	onlyDefault bool
	listed      bool // the SizingProfiles of the cluster are known
	learned     int  // number of calls of Learn with valid parameters; numbers the Editions
}

type definition struct {
	version string  // of the object that was read last
	valid   *Choice // its last valid parameters; nil: none are known
	problem string  // why the object is invalid; empty if it is valid
	deleted bool

	// usedAt is when an autoscaler last referenced the SizingProfile, or when Forget first found it deleted. Zero unless deleted.
	usedAt time.Time
}

// An Edition is a profile with unchanged parameters. The zero value is no profile.
type Edition struct {
	Name       string
	Number     int  // unique per valid version of a SizingProfile; 0 for built-in profiles
	ModelState bool // the profile needs model state
}

// A Choice is the profile that sizes an autoscaler. It does not change.
type Choice struct {
	recommend.Profile
	Edition Edition
	Sum     uint64 // a checksum of its name and parameters
	Usable  bool   // false: the parameters of the profile are unknown, so the last recommendation stays
}

var unusable = &Choice{}

// NewCatalog returns a catalog of the built-in profiles. The default profile gets params; the others get their rounding. If onlyDefault
// is true, all autoscalers get the default profile: --recommender-name is set, which selects autoscalers as upstream does.
func NewCatalog(params recommend.Params, onlyDefault bool) *Catalog {
	catalog := &Catalog{
		params: params, onlyDefault: onlyDefault,
		builtin: map[string]*Choice{}, profiles: map[string]*definition{}, unusable: map[cluster.Key]string{},
	}
	for _, p := range recommend.Builtins() {
		if p.Name == defaultProfile {
			p.Params = params
			p.Estimator = recommend.Default(params)
		}
		catalog.builtin[p.Name] = catalog.choice(p, 0)
	}
	return catalog
}

// pointer is what package fmt prints for a pointer, which differs after each start.
var pointer = regexp.MustCompile(`0x[0-9a-f]+`)

// choice returns the Choice of a profile, which rounds as the default profile does.
func (c *Catalog) choice(p recommend.Profile, number int) *Choice {
	p.RoundMillicores = c.params.RoundMillicores
	p.RoundBytes = c.params.RoundBytes
	p.Humanize = c.params.Humanize
	sum := fnv.New64a()
	text := fmt.Sprintf("%s %+v %+v %v %v %+v", p.Name, p.Params, p.Estimator, p.MostOfNode, p.MostOfNodeBase, p.Learning)
	_, _ = sum.Write([]byte(pointer.ReplaceAllString(text, "")))
	return &Choice{Profile: p, Sum: sum.Sum64(), Edition: Edition{Name: p.Name, Number: number, ModelState: p.Extend != nil}, Usable: true}
}

// OnlyDefault reports whether all autoscalers get the default profile, so that the SizingProfiles of the cluster are not used.
func (c *Catalog) OnlyDefault() bool { return c.onlyDefault }

// Current reports whether the catalog contains this version of a SizingProfile.
func (c *Catalog) Current(name, version string) bool {
	d := c.profiles[name]
	return d != nil && d.version == version
}

// Learn adds a version of a SizingProfile. It reports whether no valid parameters of the SizingProfile were known before.
func (c *Catalog) Learn(name, version string, p recommend.Profile) (isNew bool) {
	d := c.read(name, version)
	isNew = d.valid == nil
	c.learned++
	d.valid = c.choice(p, c.learned)
	return isNew
}

// LearnInvalid adds an invalid version of a SizingProfile. The last valid parameters are kept.
func (c *Catalog) LearnInvalid(name, version, problem string) {
	c.read(name, version).problem = problem
}

func (c *Catalog) read(name, version string) *definition {
	d := cluster.Memo(&c.profiles, name, func() *definition { return new(definition) })
	d.version = version
	d.problem = ""
	d.deleted = false
	d.usedAt = time.Time{}
	return d
}

// Listed sets the names of all SizingProfiles in the cluster. It returns the names of those that were deleted since the last call, sorted.
func (c *Catalog) Listed(names []string) (deleted []string) {
	c.listed = true
	for name, d := range c.profiles {
		if d.deleted || slices.Contains(names, name) {
			continue
		}
		d.deleted = true
		d.version = "" // if the object is created again, it is read again
		deleted = append(deleted, name)
	}
	slices.Sort(deleted)
	return deleted
}

// IsListed reports whether the SizingProfiles of the cluster are known. Until then, an autoscaler may name an unknown SizingProfile.
func (c *Catalog) IsListed() bool { return c.listed }

// Forget removes deleted SizingProfiles that no autoscaler has referenced for ModelStateTTL. Until then, an object that a tool deletes and
// creates again keeps its parameters.
func (c *Catalog) Forget(now time.Time, autoscalers []*cluster.Autoscaler) {
	for _, d := range c.profiles {
		if d.deleted {
			d.usedAt = cmp.Or(d.usedAt, now)
		}
	}
	for _, a := range autoscalers {
		if d := c.profiles[a.Recommender]; d != nil && d.deleted {
			d.usedAt = now
		}
	}
	maps.DeleteFunc(c.profiles, func(_ string, d *definition) bool { return d.deleted && now.Sub(d.usedAt) >= ModelStateTTL })
}

// Stored sets the SizingProfiles that sized autoscalers before this process started. It is for the next call of ReadStatuses.
func (c *Catalog) Stored(profiles map[cluster.Key]string) { c.stored = maps.Clone(profiles) }

// ReadStatuses learns from the status of autoscalers which of them name a SizingProfile that is deleted or invalid. Without this, a process
// that has started after the deletion would not serve them. The status does not contain the name of the profile. The name is the one that
// is stored (Stored). If none is stored, as by earlier versions, it is the one that the autoscaler names, unless the status is of an
// earlier generation, in which the autoscaler may have named another profile.
// A known name stays until the status no longer reports a problem: another recommender that the autoscaler names now may write the
// same conditions back with the present generation.
func (c *Catalog) ReadStatuses(autoscalers []*cluster.Autoscaler) {
	reported := make(map[cluster.Key]bool)
	for _, a := range autoscalers {
		problem := Reason(a.ProfileProblem)
		if problem != Deleted && problem != Invalid || a.Recommender == "" {
			continue
		}
		reported[a.Key] = true
		if _, known := c.unusable[a.Key]; known {
			continue
		}
		stored, isStored := c.stored[a.Key]
		switch {
		case isStored:
			c.unusable[a.Key] = stored
		case !a.StatusOutdated:
			c.unusable[a.Key] = a.Recommender
		}
	}
	c.stored = nil // from now on this process knows which profile a status is about
	maps.DeleteFunc(c.unusable, func(key cluster.Key, _ string) bool { return !reported[key] })
}

// reportedUnusable reports whether the status of an autoscaler reports the profile that it names as deleted or invalid.
func (c *Catalog) reportedUnusable(a *cluster.Autoscaler) bool {
	name, ok := c.unusable[a.Key]
	return ok && name == a.Recommender
}

// Contains reports whether an autoscaler names a profile: a built-in one, or a SizingProfile that exists, or existed according to this
// process or to the status of the autoscaler.
func (c *Catalog) Contains(a *cluster.Autoscaler) bool {
	if c.onlyDefault {
		return false
	}
	return c.builtin[a.Recommender] != nil || c.profiles[a.Recommender] != nil || c.reportedUnusable(a)
}

// Of returns the profile that sizes an autoscaler.
func (c *Catalog) Of(a *cluster.Autoscaler) *Choice {
	if c.onlyDefault {
		return c.builtin[defaultProfile]
	}
	if builtin := c.builtin[a.Recommender]; builtin != nil {
		return builtin
	}
	if d := c.profiles[a.Recommender]; d != nil && d.valid != nil {
		return d.valid
	}
	if c.Contains(a) {
		return unusable
	}
	return c.builtin[defaultProfile]
}

// Sizable returns the autoscalers whose profile is usable.
func (c *Catalog) Sizable(autoscalers []*cluster.Autoscaler) []*cluster.Autoscaler {
	return slices.DeleteFunc(slices.Clone(autoscalers), func(a *cluster.Autoscaler) bool { return !c.Of(a).Usable })
}

// A Reason is why a profile cannot be used as it is. The status of an autoscaler contains it as the reason of a condition.
type Reason string

// The reasons, with the values of api/podfit/v1alpha1.
const (
	Invalid      Reason = "Invalid"                // the SizingProfile is invalid
	Deleted      Reason = "Deleted"                // the SizingProfile was deleted
	OtherProfile Reason = "OtherProfileRemembered" // the workload has model state of a profile with another form
	ModeEvicts   Reason = "UpdateModeEvicts"       // the profile changes requests often, and the update mode evicts pods
)

// A Problem is a Reason with a message for the user. The zero value is no problem.
type Problem struct {
	Reason  Reason
	Message string
}

// Problem returns why the profile that an autoscaler names cannot be used as it is: it is deleted or invalid. The
// autoscaler contains the last recommendation.
func (c *Catalog) Problem(autoscaler *cluster.Autoscaler) Problem {
	name := autoscaler.Recommender
	if c.onlyDefault || c.builtin[name] != nil {
		return Problem{}
	}
	profile := c.profiles[name]
	switch {
	case profile == nil && c.listed && c.reportedUnusable(autoscaler), profile != nil && profile.deleted:
		return Problem{Deleted, fmt.Sprintf("SizingProfile %s was deleted; %s. Create it again, or set another profile in spec.recommenders[0].name",
			name, c.consequence(autoscaler))}
	case profile != nil && profile.problem != "":
		return Problem{Invalid, fmt.Sprintf("SizingProfile %[1]s is invalid: %[2]s; %[3]s. Correct it: kubectl edit sizingprofile %[1]s",
			name, profile.problem, c.consequence(autoscaler))}
	}
	return Problem{}
}

// consequence describes how an autoscaler is sized whose profile is deleted or invalid.
func (c *Catalog) consequence(a *cluster.Autoscaler) string {
	switch {
	case c.Of(a).Usable:
		return "its last valid parameters stay in use"
	case len(a.Advice) == 0:
		return "no recommendation is made"
	}
	return "the last recommendation is kept"
}

// ConflictProblem returns the problem of an autoscaler whose profile cannot use the model state of the workload.
func ConflictProblem(a *cluster.Autoscaler, choice *Choice, kept Assignment) Problem {
	return Problem{OtherProfile, fmt.Sprintf(
		"%s %s already has model state for profile %s (VerticalPodAutoscaler %s). Profile %s uses another algorithm, so no recommendation is made. "+
			"Set a profile with the same algorithm, or compare both on recorded usage: podfit backtest --recommenders %[3]s,%[5]s",
		a.Target.Kind, a.Target.Name, kept.Choice.Profile.Name, kept.By.Name, choice.Profile.Name)}
}

// ModeProblem returns the problem of an autoscaler whose profile is meant for resizes in place, and whose update mode evicts pods.
func ModeProblem(a *cluster.Autoscaler, choice *Choice) Problem {
	if !choice.Mode.Resizes() || !a.Mode.Evicts() || a.Mode.Resizes() {
		return Problem{}
	}
	return Problem{ModeEvicts, fmt.Sprintf(
		"Profile %s changes requests often and is meant for resizes in place; with updateMode %s each change evicts a pod. "+
			"Set updateMode InPlaceOrRecreate (Kubernetes 1.33 and later) or Initial, or set the profile default", choice.Profile.Name, a.Mode)}
}
