//! Checked views and builders of the IP packets that a tunnel carries.
