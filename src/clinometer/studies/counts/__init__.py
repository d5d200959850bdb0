"""The study of counts without images: shares of groups by concept, and their slopes over a setting."""
