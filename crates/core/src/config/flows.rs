//! stub
use super::ConfigError;
/// stub
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowsConfig {}
impl FlowsConfig {
    /// stub
    /// # Errors
    /// none
    pub fn try_new(self) -> Result<Self, ConfigError> {
        Ok(self)
    }
}
