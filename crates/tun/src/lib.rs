//! The TUN device, its addresses and routes, behind one batch-shaped trait.
