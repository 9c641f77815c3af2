//! The form of every bench report.
//!
//! Each value may be recorded once per round; its median is what is shown. A goal
//! that is not met is shown, never removed.

use std::fmt;

use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::machine::Machine;
use crate::samples::median;

/// The results of one run of one area.
#[derive(Serialize)]
pub struct Report {
    /// What was measured.
    pub area: &'static str,
    /// Where it was measured.
    pub machine: Machine,
    /// What the machine can do at best.
    pub limits: Values,
    /// The goals, and whether they were met.
    pub goals: Goals,
    /// Everything else worth knowing.
    pub figures: Values,
}

/// Named values, in the order in which they were first recorded; the unit stands
/// at the end of the name.
#[derive(Default)]
pub struct Values(Vec<(String, Vec<f64>)>);

/// Goals, in the order in which they were first recorded.
#[derive(Default)]
pub struct Goals(Vec<ReportGoal>);

/// A value with a bound.
struct ReportGoal {
    name: String,
    unit: &'static str,
    bound: GoalBound,
    rounds: Vec<f64>,
}

/// The bound of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GoalBound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// Less than this.
    Below(f64),
}

impl Report {
    /// An empty report.
    pub(crate) fn new(area: &'static str, machine: Machine) -> Self {
        Self {
            area,
            machine,
            limits: Values::default(),
            goals: Goals::default(),
            figures: Values::default(),
        }
    }

    /// The report as one JSON object.
    pub fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

impl Values {
    /// Adds one round's value.
    pub(crate) fn record(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, rounds)) => rounds.push(value),
            None => self.0.push((name, vec![value])),
        }
    }

    /// The largest median of all values whose name starts like this.
    pub(crate) fn largest(&self, name: &str) -> f64 {
        let values = self.medians();
        let alike = values.filter(|(other, _)| other.starts_with(name));
        alike.map(|(_, value)| value).fold(f64::NAN, f64::max)
    }

    fn medians(&self) -> impl Iterator<Item = (&str, f64)> {
        let values = self.0.iter();
        values.map(|(name, rounds)| (name.as_str(), median(rounds)))
    }
}

impl Goals {
    /// Adds one round's value.
    pub(crate) fn record(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        bound: GoalBound,
        value: f64,
    ) {
        let name = name.into();
        match self.0.iter_mut().find(|goal| goal.name == name) {
            Some(goal) => goal.rounds.push(value),
            None => self.0.push(ReportGoal {
                name,
                unit,
                bound,
                rounds: vec![value],
            }),
        }
    }
}

impl ReportGoal {
    fn value(&self) -> f64 {
        median(&self.rounds)
    }

    fn is_met(&self) -> bool {
        let value = self.value();
        match self.bound {
            GoalBound::AtLeast(goal) => value >= goal,
            GoalBound::AtMost(goal) => value <= goal,
            GoalBound::Below(goal) => value < goal,
        }
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.medians())
    }
}

impl Serialize for Goals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for goal in &self.0 {
            list.serialize_element(goal)?;
        }
        list.end()
    }
}

impl Serialize for ReportGoal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Goal", 5)?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("value", &self.value())?;
        object.serialize_field("unit", self.unit)?;
        object.serialize_field("goal", &self.bound.to_string())?;
        object.serialize_field("met", &self.is_met())?;
        object.end()
    }
}

impl fmt::Display for GoalBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(goal) => write!(f, ">= {goal}"),
            Self::AtMost(goal) => write!(f, "<= {goal}"),
            Self::Below(goal) => write!(f, "< {goal}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "steadfast bench {}", self.area)?;
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "\nLimits")?;
        self.limits.fmt(f)?;
        writeln!(f, "\nGoals")?;
        for goal in &self.goals.0 {
            let met = if goal.is_met() { "met" } else { "MISSED" };
            let (name, bound) = (&goal.name, goal.bound.to_string());
            let (value, unit) = (DisplayNumber(goal.value()), goal.unit);
            writeln!(f, "  {name:<48} {value:>12}  {bound:<8} {unit:<8} {met}")?;
        }
        writeln!(f, "\nFigures")?;
        self.figures.fmt(f)
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.medians() {
            writeln!(f, "  {name:<48} {:>12}", DisplayNumber(value))?;
        }
        Ok(())
    }
}

/// A number with the digits that matter.
struct DisplayNumber(f64);

impl fmt::Display for DisplayNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.0.abs() {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            value if value >= 1.0 => 2,
            _ => 3,
        };
        f.pad(&format!("{:.decimals$}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("test", Machine::look(std::path::Path::new(".")));
        for value in [3.0, 1.0, 2.0] {
            report.limits.record("sync_us", value);
            let bound = GoalBound::AtMost(1.5);
            report.goals.record("ratio", "x", bound, value);
        }
        report.figures.record("rss_mb", 10.0);
        report
    }

    #[test]
    fn json_has_the_form_that_was_agreed() {
        let json: serde_json::Value = serde_json::from_str(&report().json().unwrap()).unwrap();
        assert_eq!(json["area"], "test");
        assert!(json["machine"]["cores"].is_u64());
        assert_eq!(json["limits"], serde_json::json!({ "sync_us": 2.0 }));
        let goal = serde_json::json!({
            "name": "ratio", "value": 2.0, "unit": "x", "goal": "<= 1.5", "met": false
        });
        assert_eq!(json["goals"], serde_json::json!([goal]));
        assert_eq!(json["figures"], serde_json::json!({ "rss_mb": 10.0 }));
    }

    #[test]
    fn a_missed_goal_is_shown() {
        let table = report().to_string();
        let line = table.lines().find(|line| line.contains("ratio"));
        assert!(line.unwrap().ends_with("MISSED"));
    }

    #[test]
    fn bounds_hold_at_their_edge() {
        let goal = |bound| ReportGoal {
            name: String::new(),
            unit: "",
            bound,
            rounds: vec![2.0],
        };
        assert!(goal(GoalBound::AtLeast(2.0)).is_met());
        assert!(goal(GoalBound::AtMost(2.0)).is_met());
        assert!(!goal(GoalBound::Below(2.0)).is_met());
    }
}
